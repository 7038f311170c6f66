"""A collection of the store as one of mteb's retrieval tasks, whose data needs no hub."""

import re
from collections.abc import Mapping
from typing import Any

from hardneg.formats.collection import StoredCollection
from hardneg.records.errors import DataError


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
    qrels = {query_id: dict(judged) for query_id, judged in collection.qrels(split).items() if judged}
    return {
        "corpus": Dataset(InMemoryTable(corpus)),
        "queries": Dataset.from_dict(queries),
        "relevant_docs": qrels,
        "top_ranked": None,
    }
