"""mteb's tasks by name, those that a search solves, with their data; and a stored collection as one."""

import re
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any

from hardneg.formats.collection import StoredCollection
from hardneg.records.errors import DataError, HardnegError, UsageError
from hardneg.records.wording import suggestion

_TEXTS = {"string", "large_string"}


def named_tasks(name: str) -> list[Any]:
    """The tasks of a name: one, or the parts of a mean of several, followed by the mean.

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
        reason = f"is a task of {task.metadata.type}, which is no retrieval"
        raise UsageError(f"task {name} {reason}: name one of retrieval or reranking")
    if set(task.metadata.modalities) != {"text"}:
        raise UsageError(f"task {name} is about {', '.join(task.metadata.modalities)}: name one about text alone")


def is_mean(task: Any) -> bool:
    """Whether a task has no data of its own, but the mean of others' scores."""
    from mteb.abstasks.aggregated_task import AbsTaskAggregate

    return isinstance(task, AbsTaskAggregate)


def load_data(task: Any) -> None:
    """Loads a task's data, unless they are there.

    Raises:
        DataError: they cannot be loaded, or cannot be evaluated; with all problems.
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
    splits = ((subset, split) for subset in task.hf_subsets for split in task.eval_splits)
    problems = [problem for subset, split in splits for problem in _lacking(task.dataset, subset, split)]
    if problems:
        raise DataError(f"task {task.metadata.name} cannot be evaluated: {'; '.join(problems)}")


def _lacking(dataset: Mapping[str, Any], subset: str, split: str) -> Iterator[str]:
    """The problems of a split's data."""
    splits = dataset.get(subset, dataset)
    name = split if subset == "default" else f"{subset}, {split}"
    if split not in splits:
        yield f"{name}: no such split, there is {', '.join(map(str, splits)) or 'none'}"
        return
    data, judged = splits[split], splits[split].get("relevant_docs") or {}
    lacking = [(part, _lacking_rows(data.get(part))) for part in ("corpus", "queries")]
    yield from (f"{name}: {part}: {problem}" for part, problem in lacking if problem)
    grades = ((query_id, grade) for query_id, grades_of in judged.items() for grade in grades_of.values())
    if (wrong := next((item for item in grades if not isinstance(item[1], Integral)), None)) is not None:
        yield f"{name}: query {wrong[0]!r} has grade {wrong[1]!r}, which is no whole number"
    if not any(problem for _, problem in lacking) and not any(
        judged.get(query_id) for query_id in data["queries"]["id"]
    ):
        yield f"{name}: none of its queries is judged"


def _lacking_rows(rows: Any) -> str:
    """The problem of a corpus or queries; empty where they can be searched."""
    if rows is None or not len(rows) or "id" not in rows.column_names:
        return "has no rows with an id"
    if rows.features["id"].dtype not in _TEXTS:
        return f"ids are {rows.features['id'].dtype}, not texts"
    for name in {"title", "text"} & {*rows.column_names}:
        if rows.data.column(name).null_count:
            empty = (row["id"] for row in rows.select_columns(["id", name]) if row[name] is None)
            if (first := next(empty, None)) is not None:
                return f"{first!r} has no {name}"
    return ""


def local_task(name: str, collection: StoredCollection, split: str, revision: str) -> Any:
    """An `AbsTaskRetrieval` over one split of a stored collection; its corpus is mapped, not held.

    Args:
        name: what the task is called; letters, digits, `-`, `_` and `.` are kept.
        revision: names the collection's content: results of another one are not taken for its own.

    Raises:
        DataError: there is no such split, nothing is judged in it, or there are no documents.
    """
    from mteb.abstasks.retrieval import AbsTaskRetrieval

    if not len(collection.corpus):
        raise DataError(f"task {name}: the corpus has no documents")
    data = _split_data(collection, split)
    if not data["relevant_docs"]:
        raise DataError(f"task {name}: split {split} has no judgements; name another {{split}}", "split")
    called = re.sub(r"[^\w.-]+", "-", name).strip("-.") or "local"

    def load_data(self: Any, num_proc: int | None = None, **_: Any) -> None:
        """The data is at hand."""
        self.dataset, self.data_loaded = {"default": {split: dict(data)}}, True

    body = {"metadata": _metadata(called, split, revision), "load_data": load_data, "__module__": __name__}
    return type("LocalTask", (AbsTaskRetrieval,), body)()


def _metadata(name: str, split: str, revision: str) -> Any:
    from mteb.abstasks.task_metadata import TaskMetadata

    return TaskMetadata(
        name=name,
        description=f"Split {split} of a local collection.",
        dataset={"path": f"local/{name}", "revision": revision},
        type="Retrieval",
        category="t2t",
        modalities=["text"],
        eval_splits=[split],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )


def _split_data(collection: StoredCollection, split: str) -> Mapping[str, Any]:
    """mteb's `RetrievalSplitData`."""
    import pyarrow as pa
    from datasets import Dataset
    from datasets.table import InMemoryTable

    corpus = pa.Table.from_batches(collection.corpus.batches).rename_columns(["id", "title", "text"])
    rows = list(collection.queries(split))
    queries = {"id": [query_id for query_id, _ in rows], "text": [text for _, text in rows]}
    judged = collection.judged(split)
    qrels = {query_id: judged[query_id] for query_id in queries["id"] if judged.get(query_id)}
    return {
        "corpus": Dataset(InMemoryTable(corpus)),
        "queries": Dataset.from_dict(queries),
        "relevant_docs": qrels,
        "top_ranked": None,
    }
