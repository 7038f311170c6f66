"""`hardneg evaluate --mteb`: models on mteb's tasks, or on a collection as one of these, with paired tests."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import say
from hardneg.evaluation.levels import known_level
from hardneg.records.errors import DataError, UsageError

if TYPE_CHECKING:
    from hardneg.cli.planned_work import TerminalWorkplace
    from hardneg.doors.mteb.task_comparison import Compared
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.records.types import PluginSetting

_PANEL = "On mteb's tasks, in place of runs"
_REVISION = re.compile(r"[0-9a-f]{32,40}")

Tasks = Annotated[
    list[str] | None,
    typer.Option(
        "--mteb",
        metavar="TASK...",
        help="mteb's retrieval tasks, such as SciFact; or beir:FOLDER, or another dataset, as one.",
        rich_help_panel=_PANEL,
    ),
]
Models = Annotated[
    list[str] | None,
    typer.Option("--model", help="A folder, a hub id, or bm25; give --model for each.", rich_help_panel=_PANEL),
]
Backend = Annotated[
    str | None,
    typer.Option(
        "--backend",
        help="The index for the models' vectors, such as hnsw; default: exact search.",
        autocompletion=completion.plugins("indexes"),
        rich_help_panel=_PANEL,
    ),
]
BackendOptions = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the index, such as m=32.", rich_help_panel=_PANEL),
]
Predictions = Annotated[
    list[Path] | None,
    typer.Option(
        "--predictions", help="A folder of predictions that mteb wrote, of any model.", rich_help_panel=_PANEL
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output", "-o", help="The folder for all output; a stopped evaluation resumes there.", rich_help_panel=_PANEL
    ),
]
OPTIONS = {
    "tasks": Tasks,
    "model": Models,
    "backend": Backend,
    "option": BackendOptions,
    "predictions": Predictions,
    "output": Output,
}
"""The options of the command on tasks, by the names of its parameters."""


@dataclass(frozen=True)
class TaskModels:
    """What is evaluated on which tasks; index: what the models' vectors are searched in."""

    tasks: Sequence[str]
    models: Sequence[str]
    predictions: Sequence[Path]
    index: str | None
    index_options: Sequence[str]

    def setting(self) -> "PluginSetting | None":
        """The index with its options. Raises UsageError where there are options alone."""
        from hardneg.cli.planned_work import plugin_options
        from hardneg.records.types import PluginSetting

        options = plugin_options(self.index_options)
        if self.index is None and options:
            raise UsageError("evaluate --mteb: --option goes with --backend NAME")
        return None if self.index is None else PluginSetting(self.index, options)


@dataclass(frozen=True)
class KeptAt:
    """Where results and artifacts are kept and made; settings: those of a dataset begin with `dataset.`."""

    output: Path | None
    store: Path | None
    settings: Sequence[str]
    device: str | None


@dataclass(frozen=True)
class OnTasks:
    """`hardneg evaluate --mteb` at work.

    relevance_level: the lowest grade that binary metrics take as relevant. split: of a collection that is made a task;
    mteb's own tasks say theirs. significance_level, equivalence_margin: of the tests.
    """

    models: TaskModels
    at: KeptAt
    relevance_level: int
    split: str
    significance_level: float
    equivalence_margin: float

    def measured(self, metrics: Sequence[str], baselines: Sequence[str]) -> "Iterator[tuple[str, Measured]]":
        """What is measured on each split of each task, by its name; a baseline is a model too.

        Raises:
            UsageError: an option is missing, or names what is not there.
            HardnegError: a model cannot be evaluated; the next call goes on from there.
        """
        from hardneg.cli.planned_work import opened
        from hardneg.doors.mteb.model import require_mteb
        from hardneg.doors.mteb.task_comparison import TaskComparison

        if self.at.output is None:
            raise UsageError("evaluate --mteb: give --output FOLDER, where the results are kept")
        if not (self.models.models or self.models.predictions) or "" in self.models.models:
            raise UsageError("evaluate --mteb: give --model NAME, or --predictions FOLDER")
        require_mteb()
        workplace = opened(self.at.store, self.at.device)
        rows = [*self._evaluated(workplace, baselines), *_predicted(self.models.predictions)]
        labels = [row.label for row in rows]
        if twice := [label for label in dict.fromkeys(labels) if labels.count(label) > 1]:
            raise UsageError(f"two rows are called {twice[0]}: give the predictions in a folder of another name")
        tasks = self._tasks(workplace)
        against = [next(row.label for row in rows if _is_called(row, name)) for name in baselines]
        level = known_level(self.significance_level)
        tell, margin = partial(say, err=True), self.equivalence_margin
        comparison = TaskComparison(self.at.output, rows, metrics, against, self.relevance_level, tell, level, margin)
        comparison.begin()
        with _no_bars():
            for task in tasks:
                yield from comparison.measured(task)

    def _evaluated(self, workplace: "TerminalWorkplace", baselines: Sequence[str]) -> "Iterator[Compared]":
        from hardneg.doors.mteb.model import TaskSearcher
        from hardneg.doors.mteb.system import TaskSystem
        from hardneg.doors.mteb.task_comparison import Compared

        known = {*self.models.models, *_labels(self.models.models).values()}
        known |= {name for path in self.models.predictions for name in (str(path), _prediction_label(path))}
        labels = _labels(list(dict.fromkeys([*self.models.models, *(name for name in baselines if name not in known)])))
        own = tuple(setting for setting in self.at.settings if not setting.startswith("dataset."))
        for name, label in labels.items():
            system = TaskSystem.named(name, self.models.setting(), own)
            searcher = TaskSearcher(system, workplace)
            searcher.mteb_model_meta  # noqa: B018 - a model that is not there is told before anything runs
            yield Compared(label, searcher)

    def _tasks(self, workplace: "TerminalWorkplace") -> list[Any]:
        from hardneg.doors.mteb.tasks import named_tasks

        loaded, problems = list[Any](), list[str]()
        for name in dict.fromkeys(self.models.tasks):
            try:
                loaded += [self._local_task(name, workplace)] if ":" in name else named_tasks(name)
            except UsageError as error:
                problems.append(str(error))
        names = [task.metadata.name for task in loaded]
        problems += [f"two tasks are called {name}: leave one out" for name in set(names) if names.count(name) > 1]
        if problems:
            raise UsageError("\n".join(problems))
        return loaded

    def _local_task(self, dataset: str, workplace: "TerminalWorkplace") -> Any:
        from hardneg.api.adhoc_recipe import AdhocRecipe
        from hardneg.api.single_stage import make_dataset
        from hardneg.doors.mteb.tasks import local_task
        from hardneg.formats.collection import StoredCollection

        settings = [setting for setting in self.at.settings if setting.startswith("dataset.")]
        artifact = make_dataset(AdhocRecipe("evaluate", dataset, settings=settings).plan(), workplace)
        loader, _, source = dataset.partition(":")
        name = f"{loader}-{Path(source).expanduser().absolute().name}"
        return local_task(name, StoredCollection.open(artifact.path), self.split, artifact.key)


def _predicted(folders: Sequence[Path]) -> "Iterator[Compared]":
    from hardneg.doors.mteb.task_comparison import Compared

    for folder in folders:
        if not folder.is_dir():
            raise DataError(f"{folder}: no such folder; it is what mteb's prediction_folder named")
        yield Compared(_prediction_label(folder), folder=folder)


def _prediction_label(folder: Path) -> str:
    """The folder's name; where that is a revision, the model's that stands before it."""
    whole = folder.absolute()
    return whole.parent.name if _REVISION.fullmatch(whole.name) else whole.name


def _is_called(row: "Compared", name: str) -> bool:
    """Whether a row is what the user calls so: by its label, its model or its folder."""
    own = {row.label, str(row.folder)}
    if row.searcher is not None:
        system = row.searcher.system
        own |= {system.model or (system.index.name if system.index else "")}
    return name in own


def _labels(names: Sequence[str]) -> dict[str, str]:
    from hardneg.api.labels import run_labels

    labels = run_labels([Path(name) for name in names])
    return {name: labels[Path(name)] for name in names}


@contextmanager
def _no_bars() -> Iterator[None]:
    """A block in which `datasets` shows no bars of its own, as hardneg has its own."""
    from datasets.utils.logging import disable_progress_bar, enable_progress_bar, is_progress_bar_enabled

    shown = is_progress_bar_enabled()
    disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            enable_progress_bar()
