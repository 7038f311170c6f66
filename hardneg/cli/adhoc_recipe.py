"""Recipes that a command makes in memory: run like those of files, with results cached and named in the same store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.cli.options import open_store, tell_once
from hardneg.cli.outputs import Outputs, Target, inputs_of
from hardneg.cli.printing import say
from hardneg.errors import UsageError

if TYPE_CHECKING:
    from hardneg.artifacts import Artifact, Store
    from hardneg.recipe.execute import Outcome
    from hardneg.recipe.load import Recipe
    from hardneg.recipe.plan import Plan

ENCODED, SEARCHED, MINED, TRAINED = "index", "run", "negatives", "model"

Tree = dict[str, Any]


@dataclass(frozen=True)
class Place:
    """Where a command works: its store, device and number of processes, each None for the usual."""

    store: Path | None
    device: str | None = None
    processes: int | None = None


def tree(dataset: str, model: str | None, stages: Mapping[str, Any], seed: int = 42) -> Tree:
    """The tree of a recipe; without a model its stages must not need one."""
    return {"dataset": dataset, "model": {"name": model or "none"}, "seed": seed, "stages": dict(stages)}


def options(given: Sequence[str]) -> dict[str, Any]:
    """`--option KEY=VALUE`, each value read as YAML."""
    import yaml

    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"--option {text}: must be of the form KEY=VALUE")
        try:
            found[key] = yaml.safe_load(value)
        except yaml.YAMLError:
            found[key] = value
    return found


def plan_tree(command: str, recipe: Tree, settings: Sequence[str] = ()) -> "Plan":
    """The steps of a tree with `--set` applied; its mistakes are told under the command's name."""
    from hardneg.recipe.plan import make_plan

    return make_plan(check_tree(command, recipe, settings))


def check_tree(command: str, recipe: Tree, settings: Sequence[str] = ()) -> "Recipe":
    """A tree with `--set` applied, checked but not planned: no data is read."""
    from hardneg.recipe.load import check_recipe
    from hardneg.recipe.yaml_load import apply_settings

    changed, problems = apply_settings(recipe, settings)
    checked = check_recipe(changed, Path(command), found=problems)
    for note in checked.notes:
        tell_once(note)
    return checked


def dataset_tree(dataset: str) -> Tree:
    """The tree of a command that needs no more than a dataset."""
    return tree(dataset, None, {MINED: {"stage": "mine", "miner": "random"}})


def make_dataset(command: str, dataset: str, settings: Sequence[str], store: "Store") -> "Artifact":
    """The stored collection of a dataset, read now unless it is in the store."""
    from hardneg.fields import DATASET as NAME

    plan = plan_tree(command, dataset_tree(dataset), settings)
    return run_plan(plan, store, None, until=NAME).artifacts[NAME]


def run_plan(plan: "Plan", store: "Store", device: str | None, until: str | None = None) -> "Outcome":
    """Makes what the store lacks, with one line a step on stderr; of several processes each calls this."""
    from hardneg.cli.console import Bars, stderr_console
    from hardneg.cli.launch import meet
    from hardneg.cli.tables import step_watcher
    from hardneg.distributed import world
    from hardneg.recipe.execute import Options, Watcher, execute

    meet(plan.keys, store.root)
    console = stderr_console()
    watcher = step_watcher(console, Bars(console), len(plan.until(until))) if world().first else Watcher()
    return execute(plan, store, Options(until, device=device), watcher)


@dataclass(frozen=True)
class Publication:
    """What a command publishes: the artifact of `stage`, or what is `inside` it, at `output`."""

    command: str
    stage: str
    output: Path
    inside: str = ""
    overwrite: bool = False

    def make(self, recipe: Tree, settings: Sequence[str], place: Place) -> None:
        """Runs the recipe and hands its result out, in the processes that were asked for; the first one speaks."""
        from hardneg.cli.launch import launched, together
        from hardneg.distributed import world

        if launched(place.processes, place.device):
            return
        with together(place.device) as device:
            plan, opened = plan_tree(f"hardneg {self.command}", recipe, settings), open_store(place.store)
            target = Target(self.output, folder=self.stage != SEARCHED)
            outputs = plan_outputs(self.command, plan, opened, [target], self.overwrite)
            with outputs.begun():
                made = run_plan(plan, opened, device).artifacts[self.stage].path
                if world().first:
                    hand_out(made / self.inside, self.output, outputs)
                    say(str(self.output))


def plan_outputs(
    command: str, plan: "Plan", store: "Store", targets: Sequence[Target], overwrite: bool, reads: Sequence[Path] = ()
) -> Outputs:
    """The outputs of a command that runs a plan; `reads` are the files that it is given beside that."""
    inputs = [*inputs_of(plan.recipe), *reads]
    return Outputs(command, targets, inputs, store, overwrite, list(plan.keys.values()))


def check_run(output: Path) -> None:
    """Refuses an output that is no name of a run. Raises UsageError where it does not end in .gz."""
    if output.suffix != ".gz":
        raise UsageError(f"{output}: runs are gzip files; give a name that ends in .trec.gz")


def tell_left_out(counts: Mapping[str, int]) -> None:
    """One line for each reason that anything was left out for."""
    for reason, count in counts.items():
        if count:
            say(f"  {reason}: {count}")


def hand_out(source: Path, output: Path, outputs: Outputs) -> None:
    """Puts an artifact's file or folder at `output`; the store keeps all steps as long as that is there."""
    from hardneg.artifacts import MANIFEST
    from hardneg.atomic_write import link_file, link_folder

    with outputs.laid_out():
        link_folder(source, output, {MANIFEST}) if source.is_dir() else link_file(source, output)
