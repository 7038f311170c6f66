"""mteb's tasks by name: those that a search solves, with their data."""

from typing import Any

from hardneg.errors import DataError, HardnegError, UsageError
from hardneg.registry import suggestion


def named_tasks(name: str) -> list[Any]:
    """The tasks of a name: one, or the parts of one that is the mean of several, and that behind them.

    Raises:
        UsageError: there is no such task, or no search of texts solves it.
    """
    from mteb.abstasks.aggregated_task import AbsTaskAggregate
    from mteb.get_tasks import _TASK_RENAMES, _TASKS_REGISTRY, get_task

    if name not in _TASKS_REGISTRY and name not in _TASK_RENAMES:
        known = suggestion(name, _TASKS_REGISTRY)
        raise UsageError(
            f"mteb has no task {name!r}{known}; `mteb available-tasks` lists them; a folder is beir:FOLDER"
        )
    task = get_task(name)
    parts = [*task.metadata.tasks] if isinstance(task, AbsTaskAggregate) else []
    for part in parts or [task]:
        _check_searched(part)
    return [*parts, task]


def _check_searched(task: Any) -> None:
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    name = task.metadata.name
    if not isinstance(task, AbsTaskRetrieval):
        told = f"is a task of {task.metadata.type}, which is no retrieval"
        raise UsageError(f"task {name} {told}: name one of retrieval or reranking")
    if set(task.metadata.modalities) != {"text"}:
        raise UsageError(f"task {name} is about {', '.join(task.metadata.modalities)}: name one about text alone")


def is_mean(task: Any) -> bool:
    """Whether a task has no data of its own, but the mean of others' scores."""
    from mteb.abstasks.aggregated_task import AbsTaskAggregate

    return isinstance(task, AbsTaskAggregate)


def load_data(task: Any) -> None:
    """Loads a task's data, unless they are there.

    Raises:
        DataError: they cannot be had.
    """
    try:
        task.load_data()
        task.convert_v1_dataset_format_to_v2(num_proc=None)
    except HardnegError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        source = task.metadata.dataset.get("path", "")
        raise DataError(
            f"task {task.metadata.name}: its data ({source}) cannot be loaded ({reason:.200}): they come from the hub, "
            "or from its cache on this machine"
        ) from error
