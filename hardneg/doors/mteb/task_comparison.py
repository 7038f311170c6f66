"""Systems on tasks: each evaluated by mteb unless that is done, then measured and compared query by query."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.doors.mteb.model import TaskSearcher
from hardneg.doors.mteb.task_runs import judgements, read_predictions, task_qrels, task_run
from hardneg.doors.mteb.tasks import is_mean, load_data
from hardneg.evaluation.levels import LEVEL, MARGIN
from hardneg.formats.qrels import write_qrels
from hardneg.formats.runs import Run, write_run
from hardneg.records.errors import DataError, UsageError
from hardneg.records.layout import METRICS
from hardneg.store.atomic_write import replace_text

if TYPE_CHECKING:
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.evaluation.task_ranks import OverTasks

_MARK = "mteb.json"
_QRELS = "qrels.txt"
_OVER_TASKS = "tasks.json"


@dataclass(frozen=True)
class Compared:
    """A row of the comparison: a system to evaluate, or a folder of predictions."""

    label: str
    searcher: TaskSearcher | None = None
    folder: Path | None = None


@dataclass(frozen=True)
class TaskComparison:
    """Rows that are compared on tasks; all is kept in `output`.

    results/ is mteb's own cache of results, predictions/ has its predictions in the same order of folders. TASK/SPLIT
    (or TASK/SUBSET/SPLIT) has the judgements, a run of each row and metrics.json.

    metrics: their names. baselines: labels that the others are compared with; each with each where there is none.
    level: the lowest relevant grade of binary metrics. significance_level, equivalence_margin: of the tests.
    tell: gets a line before a row is evaluated on a task.
    """

    output: Path
    rows: Sequence[Compared]
    metrics: Sequence[str]
    baselines: Sequence[str] = ()
    level: int = 1
    tell: Callable[[str], None] = lambda line: None
    significance_level: float = LEVEL
    equivalence_margin: float = MARGIN

    def begin(self) -> None:
        """Makes the output's folder, unless it is one of a comparison already.

        Raises:
            UsageError: it is something else.
        """
        mark = self.output / _MARK
        free = not self.output.exists() or (self.output.is_dir() and not any(self.output.iterdir()))
        if not free and not mark.is_file():
            message = f"{self.output}: is there, and no folder of mteb's results: give another {{output}}"
            raise UsageError(message, "output")
        self.output.mkdir(parents=True, exist_ok=True)
        replace_text(mark, json.dumps({"rows": [row.label for row in self.rows]}) + "\n")

    def measured(self, task: Any) -> "Iterator[tuple[str, Measured]]":
        """Evaluate the rows on a task where they are missing, and yield the measures of each split by its folder.

        Raises:
            HardnegError: a row cannot be evaluated; a next call resumes.
            DataError: the task's data cannot be had, or predictions lack one of its splits.
        """
        waiting = [row for row in self.rows if row.searcher is not None and not self._is_done(task, row.searcher)]
        if is_mean(task):
            for row in waiting:
                self._evaluate(task, row)
            return
        known = all((self.output / folder / _QRELS).is_file() for folder, _, _ in _task_splits(task))
        if waiting or not known or any(row.folder for row in self.rows):
            load_data(task)
        for row in waiting:
            self._evaluate(task, row)
        for folder, subset, split in _task_splits(task):
            yield folder, self._split(task, (self.output / folder, subset, split))
        if task.data_loaded:
            task.unload_data()

    def _evaluate(self, task: Any, row: Compared) -> None:
        import mteb

        searcher = row.searcher
        self.tell(f"{task.metadata.name}: {row.label}")
        mteb.evaluate(
            searcher,
            task,
            cache=self._cache,
            prediction_folder=self._predictions(searcher),
            show_progress_bar=False,
            co2_tracker=False,
        )

    def _is_done(self, task: Any, searcher: TaskSearcher) -> bool:
        """Whether a task is evaluated; results on other data, or cut off by a kill, are removed."""
        result = Path(self._cache.get_task_result_path(task.metadata.name, searcher.mteb_model_meta))
        noted = self._predictions(searcher) / task.prediction_file_name
        result_of_task = _sound(result, None if is_mean(task) else noted, task)
        if result_of_task is None:
            result.unlink(missing_ok=True)
            noted.unlink(missing_ok=True)
        return result_of_task is not None and not result_of_task.get_missing_evaluations(task)

    @property
    def _cache(self) -> Any:
        from mteb.cache import ResultCache

        return ResultCache(self.output)

    def _predictions(self, searcher: TaskSearcher | None) -> Path:
        meta = searcher.mteb_model_meta if searcher is not None else None
        result = Path(self._cache.get_task_result_path("task", meta))
        return self.output / "predictions" / result.relative_to(self.output / "results").parent

    def _split(self, task: Any, location: tuple[Path, str, str]) -> "Measured":
        from hardneg.api.judging import scored, tested
        from hardneg.evaluation.metrics_json import write_metrics

        folder, subset, split = location
        folder.mkdir(parents=True, exist_ok=True)
        if task.data_loaded:
            write_qrels(folder / _QRELS, judgements(task_qrels(task, subset, split)))
        runs = ((row.label, self._run(task, row, location)) for row in self.rows)
        measured = scored(runs, folder / _QRELS, self.metrics, self.level)
        measured = tested(measured, self.baselines, self.significance_level, self.equivalence_margin)
        write_metrics(folder / METRICS, measured)
        return measured

    def _run(self, task: Any, row: Compared, location: tuple[Path, str, str]) -> Run:
        """The lists of a row, which are left in the folder too."""
        folder, subset, split = location
        path = (row.folder or self._predictions(row.searcher)) / task.prediction_file_name
        noted = read_predictions(path).get(subset, {})
        if split not in noted:
            raise DataError(f"{path}: has nothing of subset {subset}, split {split}: evaluate the model on that first")
        try:
            run = task_run(task, noted[split])
        except (AttributeError, TypeError, ValueError, OverflowError) as error:
            raise DataError(f"{path}: split {split}: not a score for each document of each query ({error})") from error
        except DataError as error:
            raise DataError(f"{path}: split {split}: {error}") from error
        if not run:
            raise DataError(f"{path}: split {split}: holds no query's documents: evaluate the model on it first")
        write_run(folder / f"{row.label.replace('/', '__').replace(':', '_')}.trec.gz", run.items())
        return run


def compare_over_tasks(output: Path, measured: "Mapping[str, Measured]") -> "OverTasks | None":
    """Compare the rows over all tasks and write `tasks.json`; None where there are fewer than two tasks or rows."""
    from hardneg.evaluation.task_ranks import over_tasks

    comparison = over_tasks(measured)
    if comparison is not None:
        replace_text(output / _OVER_TASKS, json.dumps(comparison.to_json(), indent=1, ensure_ascii=False) + "\n")
    return comparison


def _sound(result: Path, predictions: Path | None, task: Any) -> Any:
    """mteb's results of a task, if they are of the task's data and each has its predictions; else None."""
    from mteb.results import TaskResult

    try:
        task_result = TaskResult.from_disk(result)
        noted = {} if predictions is None else read_predictions(predictions)
    except (OSError, ValueError, KeyError, AttributeError, TypeError, DataError):
        return None
    scored = [(split, each["hf_subset"]) for split, scores in task_result.scores.items() for each in scores]
    known = predictions is None or all(split in noted.get(subset, {}) for split, subset in scored)
    return task_result if known and task_result.dataset_revision == task.metadata.revision else None


def _task_splits(task: Any) -> list[tuple[str, str, str]]:
    """Of each split of a task: its folder, its subset, its name."""
    name, subsets = task.metadata.name, task.hf_subsets
    return [
        ("/".join([name, *([] if subset == "default" else [subset]), split]), subset, split)
        for subset in subsets
        for split in task.eval_splits
    ]
