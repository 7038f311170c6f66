"""`hardneg mteb`: models on mteb's retrieval tasks, evaluated by mteb with hardneg's encoding, indexes and search."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import print_table, say, stdout_console
from hardneg.cli.options import DEVICE, OUTPUT_FOLDER, SET, STORE, key_values
from hardneg.records.errors import DataError, HardnegError, UsageError
from hardneg.records.wording import first_line

if TYPE_CHECKING:
    from hardneg.doors.mteb.model import TaskSearcher


def mteb(
    tasks: list[str] = typer.Argument(metavar="TASK...", help="mteb's retrieval or reranking tasks, such as SciFact."),
    model: list[str] = typer.Option(..., "--model", help="A folder, a hub id, or bm25; give --model for each."),
    output: Path = OUTPUT_FOLDER,
    backend: str | None = typer.Option(
        None,
        help="The index for the models' vectors, such as hnsw; default: exact search.",
        autocompletion=completion.plugins("indexes"),
    ),
    option: list[str] = key_values("An option of the index, such as m=32."),
    settings: list[str] = SET,
    store: Path | None = STORE,
    device: str | None = DEVICE,
) -> None:
    """Evaluate models on mteb's tasks, with hardneg's encoding, indexes and search; what is done is not done again.

    mteb's results go to OUTPUT/results, its predictions (the documents of each query) to OUTPUT/predictions.

    Example: hardneg mteb SciFact NFCorpus --model FOLDER --model bm25 --output results
    """
    from hardneg.cli.planned_work import opened, plugin_options
    from hardneg.doors.mteb.model import task_searcher
    from hardneg.records.types import PluginSetting
    from hardneg.report.table import Table

    if option and backend is None:
        raise UsageError("mteb: --option goes with --backend NAME")
    workplace = opened(store, device, settings)
    index = None if backend is None else PluginSetting(backend, plugin_options(option))
    searchers = {name: task_searcher(name, index, workplace) for name in model}
    rows = []
    for task in _known_tasks(tasks):
        for name, searcher in searchers.items():
            say(f"{task.metadata.name}: {name}", err=True)
            rows += [[task.metadata.name, name, *scores] for scores in _scores(task, searcher, output)]
    print_table(stdout_console(), Table(["task", "model", "split", "measure", "score"], rows, words=4))


def _known_tasks(names: Sequence[str]) -> list[Any]:
    """The tasks of these names. Raises UsageError with all mistakes."""
    from mteb import get_task
    from mteb.abstasks.aggregated_task import AbsTaskAggregate
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    tasks, problems = [], []
    for name in dict.fromkeys(names):
        try:
            task: Any = get_task(name)
        except KeyError as error:
            problems.append(f"mteb has no task {name!r}: {error.args[0]}")
            continue
        for part in task.metadata.tasks if isinstance(task, AbsTaskAggregate) else [task]:
            if not isinstance(part, AbsTaskRetrieval) or set(part.metadata.modalities) != {"text"}:
                facts = f"{part.metadata.type} about {', '.join(part.metadata.modalities)}"
                problems.append(f"task {part.metadata.name}: is {facts}: name one of retrieval or reranking about text")
        tasks.append(task)
    if problems:
        raise UsageError("\n".join(problems))
    return tasks


def _scores(task: Any, searcher: "TaskSearcher", output: Path) -> Iterator[tuple[str, str, str]]:
    """The split, main measure and score of each split of a task, evaluated unless that is done.

    Raises:
        DataError: the task's data cannot be had, or mteb cannot evaluate it.
    """
    import mteb
    from mteb.cache import ResultCache

    cache, name = ResultCache(output), task.metadata.name
    result = Path(cache.get_task_result_path(name, searcher.mteb_model_meta))
    predictions = output / "predictions" / result.relative_to(output / "results").parent
    for file in (result, predictions / task.prediction_file_name):
        with suppress(FileNotFoundError):
            try:
                json.loads(file.read_bytes())
            except ValueError:  # cut off by a kill
                file.unlink()
    try:
        found = mteb.evaluate(searcher, task, cache=cache, prediction_folder=predictions, show_progress_bar=False)
    except HardnegError:
        raise
    except Exception as error:  # of mteb, of datasets, of the network
        raise DataError(f"task {name}: cannot be evaluated ({type(error).__name__}: {first_line(error)})") from error
    for split in found.task_results[0].scores:
        yield split, task.metadata.main_score, f"{found.task_results[0].get_score([split]):.5f}"
