"""How a command runs its recipe in memory: outputs checked first, one line a step, results laid at the outputs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from hardneg.api.adhoc_recipe import AdhocRecipe
from hardneg.api.workplace import Workplace
from hardneg.cli.console import Bars, bars, stderr_console
from hardneg.cli.launch import meet
from hardneg.cli.options import open_store, tell_once
from hardneg.cli.outputs import command_outputs
from hardneg.lines.base import Job
from hardneg.records.errors import UsageError
from hardneg.runtime.distributed import world
from hardneg.store.artifacts import MANIFEST, Artifact, Store
from hardneg.store.atomic_write import link_file, link_folder
from hardneg.store.replaced_files import Outputs, Target

if TYPE_CHECKING:
    from hardneg.recipe.execute import Options, Outcome
    from hardneg.recipe.plan import Plan
    from hardneg.verbs.shared.context import Engine


@dataclass(frozen=True)
class RunOptions:
    """Where a command works: its store, device, number of processes and engine, each None for the usual.

    settings: any values of its recipe, as texts.
    """

    store: Path | None
    device: str | None = None
    processes: int | None = None
    engine: "Engine | None" = None
    settings: Sequence[str] = ()

    def opened(self) -> "TerminalWorkplace":
        """The store opened, and progress shown."""
        return TerminalWorkplace(
            open_store(self.store), self.device, settings=self.settings, progress=bars(), engine=self.engine
        )


@dataclass(frozen=True)
class TerminalWorkplace(Workplace):
    """Where a command works: each step is printed on stderr."""

    def tell(self, note: str) -> None:
        """One line on stderr."""
        tell_once(note)

    def make(self, plan: "Plan", until: str | None = None, force: Sequence[str] = ()) -> "Outcome":
        """The artifacts of all steps, or of those up to one; of several processes each calls this."""
        return run_plan(plan, self.store, self.options(until, force))


@dataclass(frozen=True)
class PlannedWork:
    """What a command has begun to make."""

    plan: "Plan"
    outputs: Outputs
    workplace: TerminalWorkplace

    def make(self) -> "Outcome":
        """The artifacts of all steps."""
        return self.workplace.make(self.plan)

    @contextmanager
    def somewhere(self) -> Iterator[TerminalWorkplace]:
        """Where it works; without a plan, where the store cannot be written, with one for the time being."""
        with suppress(OSError):
            self.workplace.store.root.mkdir(parents=True, exist_ok=True)
        if self.plan is not None or (self.workplace.store.root.is_dir() and not self.workplace.store.read_only):
            yield self.workplace
            return
        with TemporaryDirectory() as folder:
            yield replace(self.workplace, store=Store(Path(folder)))

    def dataset(self) -> Artifact:
        """The stored collection."""
        from hardneg.api.single_stage import make_dataset

        return make_dataset(self.plan, self.workplace)


@contextmanager
def begun(
    recipe: AdhocRecipe, run_options: RunOptions, targets: Sequence[Target], overwrite: bool, reads: Sequence[Path] = ()
) -> Iterator[PlannedWork]:
    """The work of a command whose outputs are free; `reads` are the files that it is given beside the recipe's."""
    with planned_work(
        recipe.command, Job(recipe, lambda plan, run_options: None, reads), run_options.opened(), targets, overwrite
    ) as work:
        yield work


@contextmanager
def planned_work(
    command: str, job: Job, workplace: TerminalWorkplace, targets: Sequence[Target], overwrite: bool
) -> Iterator[PlannedWork]:
    """The work of a line whose outputs are free, planned where it has a recipe."""
    plan: Any = None if job.recipe is None else job.recipe.plan(tell_once)
    if plan is None:
        outputs = command_outputs(command, targets, job.reads, workplace.store, overwrite)
    else:
        outputs = plan_outputs(command, plan, workplace.store, targets, overwrite, job.reads)
    with outputs.begun():
        yield PlannedWork(plan, outputs, workplace)


def laid_at(output: Path, source: Path) -> None:
    """Lays a file, or what is in an artifact's folder, at an output."""
    link_folder(source, output, {MANIFEST}) if source.is_dir() else link_file(source, output)


def stored_dataset(recipe: AdhocRecipe, store: Path | None) -> Artifact:
    """The stored collection of a recipe, read now unless it is in the store."""
    from hardneg.api.single_stage import make_dataset

    return make_dataset(recipe.plan(tell_once), RunOptions(store).opened())


def run_plan(plan: "Plan", store: Store, options: "Options") -> "Outcome":
    """Makes what the store lacks, with one line a step on stderr; of several processes each calls this."""
    from hardneg.cli.run_progress import step_watcher
    from hardneg.recipe.execute import Watcher, execute

    meet(plan.keys, store.root)
    console = stderr_console()
    watcher = step_watcher(console, Bars(console), len(plan.until(options.until))) if world().first else Watcher()
    return execute(plan, store, options, watcher)


def plan_outputs(
    command: str, plan: "Plan", store: Store, targets: Sequence[Target], overwrite: bool, reads: Sequence[Path] = ()
) -> Outputs:
    """The outputs of a command that runs a plan; `reads` are the files that it is given beside that."""
    from hardneg.recipe.run_folder import inputs_of

    inputs = [*inputs_of(plan.recipe), *reads]
    return command_outputs(command, targets, inputs, store, overwrite, list(plan.keys.values()))


def plugin_options(texts: Sequence[str], option: str = "--option") -> dict[str, Any]:
    """`--option KEY=VALUE`, each value read as YAML."""
    from hardneg.recipe.yaml_load import parse_setting

    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text}: must be of the form KEY=VALUE")
        try:
            options[key] = parse_setting(value)
        except ValueError as error:
            raise UsageError(f"{option} {key}: {error}") from None
    return options
