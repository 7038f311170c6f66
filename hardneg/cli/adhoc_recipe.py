"""Recipes that a command makes in memory: run like those of files, with results cached and named in the same store."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.artifacts import MANIFEST, Artifact, Store
from hardneg.atomic_write import link_file, link_folder
from hardneg.cli.console import Bars, bars, say, stderr_console
from hardneg.cli.launch import launched, meet, together
from hardneg.cli.options import open_store, tell_once
from hardneg.cli.outputs import Outputs, Target, inputs_of
from hardneg.distributed import world
from hardneg.errors import UsageError
from hardneg.layout import RUN

if TYPE_CHECKING:
    from hardneg.protocols import Engine
    from hardneg.recipe.execute import Options, Outcome
    from hardneg.recipe.load import Recipe
    from hardneg.recipe.plan import Plan

ENCODED, SEARCHED, MINED, TRAINED = "index", "run", "negatives", "model"


@dataclass(frozen=True)
class Place:
    """Where a command works: its store, device, number of processes and engine, each None for the usual."""

    store: Path | None
    device: str | None = None
    processes: int | None = None
    engine: "Engine | None" = None

    def options(self, until: str | None = None) -> "Options":
        """How to run a plan there."""
        from hardneg.engines.local import Local
        from hardneg.recipe.execute import Options

        return Options(until, device=self.device, engine=self.engine or Local())


@dataclass(frozen=True)
class AdhocRecipe:
    """The recipe of a command; without stages it reads the dataset, without a model its stages must not need one.

    settings: `--set` of the command, laid over the recipe.
    """

    command: str
    dataset: str
    stages: Mapping[str, Any] = field(default_factory=lambda: {MINED: {"stage": "mine", "miner": "random"}})
    model: str | None = None
    settings: Sequence[str] = ()
    seed: int = 42

    def check(self) -> "Recipe":
        """Checked but not planned: no data is read; mistakes are told under the command's name."""
        from hardneg.recipe.load import check_recipe
        from hardneg.recipe.task_prompts import with_prompts_of
        from hardneg.recipe.yaml_load import apply_settings

        model = {"name": self.model or "none"}
        tree = {"dataset": self.dataset, "model": model, "seed": self.seed, "stages": dict(self.stages)}
        changed, problems = apply_settings(tree, self.settings)
        changed = with_prompts_of(changed, problems)
        checked = check_recipe(changed, Path(f"hardneg {self.command}"), found=problems)
        for note in checked.notes:
            tell_once(note)
        return checked

    def plan(self) -> "Plan":
        """Its steps."""
        from hardneg.recipe.plan import make_plan

        return make_plan(self.check())

    def make_dataset(self, store: Store) -> Artifact:
        """The stored collection, read now unless it is in the store."""
        from hardneg.fields import DATASET

        return run_plan(self.plan(), store, Place(None).options(DATASET)).artifacts[DATASET]

    @contextmanager
    def begun(
        self, place: Place, targets: Sequence[Target], overwrite: bool, reads: Sequence[Path] = ()
    ) -> Iterator["PlannedWork"]:
        """The work of a command whose outputs are free; `reads` are the files that it is given beside the recipe's."""
        plan, store = self.plan(), open_store(place.store)
        outputs = plan_outputs(self.command, plan, store, targets, overwrite, reads)
        with outputs.begun():
            yield PlannedWork(plan, store, outputs, place)

    def publish(self, stage: str, output: Path, place: Place, inside: str = "", overwrite: bool = False) -> None:
        """Makes the artifact of a stage and lays it, or what is `inside` it, at the output.

        It runs in the processes that were asked for; the first one speaks. The store keeps all steps as long as the
        output is there.
        """
        if launched(place.processes, place.device):
            return
        with together(place.device) as device:
            target = Target(output, folder=stage != SEARCHED)
            with self.begun(replace(place, device=device), [target], overwrite) as work:
                source = work.make().artifacts[stage].path / inside
                if world().first:
                    with work.outputs.laid_out():
                        link_folder(source, output, {MANIFEST}) if source.is_dir() else link_file(source, output)
                    say(str(output))


@dataclass(frozen=True)
class PlannedWork:
    """What a command has begun to make."""

    plan: "Plan"
    store: Store
    outputs: Outputs
    place: Place

    @property
    def device(self) -> str | None:
        """The device to work on."""
        return self.place.device

    def make(self, until: str | None = None) -> "Outcome":
        """The artifacts of all steps, or of those up to one."""
        return run_plan(self.plan, self.store, self.place.options(until))

    def dataset(self) -> Artifact:
        """The stored collection."""
        from hardneg.fields import DATASET

        return self.make(DATASET).artifacts[DATASET]

    def make_from(self, stage: str, dataset: Artifact, runs: Mapping[str, Path], folder: Path) -> dict[str, Any]:
        """Makes the artifact of a stage in a folder, on runs that no stage made, such as files of a user.

        Returns its facts, and what of the runs is not in the collection; `runs` are files by the path of their input.

        Raises:
            DataError: a run has a mistake, or none of its queries is in the split.
        """
        from hardneg.data.collection import StoredCollection
        from hardneg.data.runs import rewrite_run
        from hardneg.fields import DATASET
        from hardneg.registry import plugin_errors
        from hardneg.stages.context import ArtifactInput, StageContext

        stored, step, facts = StoredCollection.open(dataset.path), self.plan.steps[stage], dict[str, Any]()
        inputs = {DATASET: ArtifactInput(DATASET, dataset.key, dataset.path)}
        for name, path in runs.items():
            inputs[name] = ArtifactInput("run", "", folder / name)
            inputs[name].folder.mkdir()
            found = rewrite_run(path, stored, vars(step.spec)["split"], inputs[name].folder / RUN)
            label = name.partition(".")[2]
            facts |= {f"{label}: {key}" if label not in ("", "run") else key: count for key, count in found.items()}
        context = StageContext(step.name, step.spec, folder, inputs, step.plugins, bars(), self.device)
        with plugin_errors(step.plugins.values()):
            return {**self.place.options().engine.make(context), **facts}


def mining_stages(mining: dict[str, Any], depth: int | None) -> dict[str, Any]:
    """The stage that mines, behind those that encode and search to a depth, unless there is a run already."""
    if depth is None:
        return {MINED: mining}
    searched = {"stage": "search", "index": ENCODED, "split": mining["split"], "depth": depth}
    return {ENCODED: {"stage": "encode"}, SEARCHED: searched, MINED: {**mining, "runs": {"dense": SEARCHED}}}


def run_plan(plan: "Plan", store: Store, options: "Options") -> "Outcome":
    """Makes what the store lacks, with one line a step on stderr; of several processes each calls this."""
    from hardneg.cli.tables import step_watcher
    from hardneg.recipe.execute import Watcher, execute

    meet(plan.keys, store.root)
    console = stderr_console()
    watcher = step_watcher(console, Bars(console), len(plan.until(options.until))) if world().first else Watcher()
    return execute(plan, store, options, watcher)


def plan_outputs(
    command: str, plan: "Plan", store: Store, targets: Sequence[Target], overwrite: bool, reads: Sequence[Path] = ()
) -> Outputs:
    """The outputs of a command that runs a plan; `reads` are the files that it is given beside that."""
    inputs = [*inputs_of(plan.recipe), *reads]
    return Outputs(command, targets, inputs, store, overwrite, list(plan.keys.values()))


def plugin_options(given: Sequence[str], option: str = "--option") -> dict[str, Any]:
    """`--option KEY=VALUE`, each value read as YAML."""
    import yaml

    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text}: must be of the form KEY=VALUE")
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            found[key] = value
    return found
