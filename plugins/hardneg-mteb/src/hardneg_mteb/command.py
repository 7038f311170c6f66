"""`hardneg mteb`: models on mteb's retrieval tasks, evaluated by mteb with hardneg's encoding, indexes and search."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import mteb as tasks_of
import typer
from mteb.abstasks.aggregated_task import AbsTaskAggregate
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.cache import ResultCache

from hardneg.plugin import PluginSetting, adaptor, errors, sessions, terminal
from hardneg_mteb.model import TaskSearcher, task_searcher

_MACHINE = "Where it runs"


def mteb(
    tasks: list[str] = typer.Argument(metavar="TASK...", help="mteb's retrieval or reranking tasks, such as SciFact."),
    model: list[str] = typer.Option(..., "--model", help="A folder, a hub id, or bm25; give --model for each."),
    output: Path = typer.Option(..., "--output", "-o", help="The folder to write.", rich_help_panel="What is written"),
    backend: str | None = typer.Option(
        None, help="The index for the models' vectors, such as hnsw; default: exact search."
    ),
    option: list[str] = typer.Option([], metavar="KEY=VALUE", help="An option of the index, such as m=32."),
    settings: list[str] = typer.Option(
        [], "--set", metavar="PATH=VALUE", help="Set any value, such as model.document_length=256."
    ),
    store: str | None = typer.Option(
        None, help="The artifact store; default $HARDNEG_STORE or the usual one.", rich_help_panel=_MACHINE
    ),
    device: str | None = typer.Option(
        None, help="cpu, cuda, cuda:1, mps; default: the best available.", rich_help_panel=_MACHINE
    ),
) -> None:
    """Evaluate models on mteb's tasks, with hardneg's encoding, indexes and search; what is done is not done again.

    mteb's results go to OUTPUT/results, its predictions (the documents of each query) to OUTPUT/predictions.

    Example: hardneg mteb SciFact NFCorpus --model FOLDER --model bm25 --output results
    """
    if option and backend is None:
        raise errors.UsageError("mteb: --option goes with --backend NAME")
    session = sessions.Session.of({"store": store, "device": device, "settings": settings, "progress": terminal.bars()})
    index = None if backend is None else PluginSetting(backend, adaptor.plugin_options(option))
    searchers = {name: task_searcher(name, index, session) for name in model}
    rows = [("task", "model", "split", "measure", "score")]
    for task in _known_tasks(tasks):
        for name, searcher in searchers.items():
            terminal.say(f"{task.metadata.name}: {name}", err=True)
            rows += [(task.metadata.name, name, *scores) for scores in _scores(task, searcher, output)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        terminal.say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _known_tasks(names: Sequence[str]) -> list[Any]:
    """The tasks of these names. Raises UsageError with all mistakes."""
    tasks, problems = [], []
    for name in dict.fromkeys(names):
        try:
            task: Any = tasks_of.get_task(name)
        except KeyError as error:
            problems.append(f"mteb has no task {name!r}: {error.args[0]}")
            continue
        for part in task.metadata.tasks if isinstance(task, AbsTaskAggregate) else [task]:
            if not isinstance(part, AbsTaskRetrieval) or set(part.metadata.modalities) != {"text"}:
                facts = f"{part.metadata.type} about {', '.join(part.metadata.modalities)}"
                problems.append(f"task {part.metadata.name}: is {facts}: name one of retrieval or reranking about text")
        tasks.append(task)
    if problems:
        raise errors.UsageError("\n".join(problems))
    return tasks


def _scores(task: Any, searcher: TaskSearcher, output: Path) -> Iterator[tuple[str, str, str]]:
    """The split, main measure and score of each split of a task, evaluated unless that is done.

    Raises:
        DataError: the task's data cannot be had, or mteb cannot evaluate it.
    """
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
        found = tasks_of.evaluate(searcher, task, cache=cache, prediction_folder=predictions, show_progress_bar=False)
    except errors.HardnegError:
        raise
    except Exception as error:  # of mteb, of datasets, of the network
        told = str(error).strip().partition("\n")[0]
        raise errors.DataError(f"task {name}: cannot be evaluated ({type(error).__name__}: {told})") from error
    for split in found.task_results[0].scores:
        yield split, task.metadata.main_score, f"{found.task_results[0].get_score([split]):.5f}"
