"""Verbs `candidate-lists` and `judged-negatives`, which write runs of documents that a collection lists or judges."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from hardneg.plugin import RankedList, StoredCollection, errors, fields, layout, run_files, stage_work, stages
from hardneg_instructions.followir import CHANGED, ORIGINAL
from hardneg_instructions.tables import read_tables

_LISTED, _JUDGED = 1000, 3
"""The numbers of documents per query that FollowIR lists and Promptriever judges, for estimates."""


class CandidateLists(stages.RunSpec):
    """Lists documents for each query of a split from a table, such as FollowIR's `top_ranked`, in table order.

    A row has a query and a document (`qid`, `pid`), or a query and all its documents (`query-id`, `corpus-ids`). The
    list of query 310 also applies to 310-og and 310-changed.

    Source: Weller et al., FollowIR (2024): only these lists are reranked.

    file: the table, Parquet or JSON Lines. split: the split of the queries.
    """

    version = 1
    purpose = "list the collection's own candidates for each query"
    stage: Literal["candidate-lists"]
    file: Annotated[fields.Name, fields.InputFile("lists of documents, Parquet or JSON Lines")] = Field(
        json_schema_extra=fields.FREE
    )
    split: fields.Name = "test"

    def estimate(self, sizes: stages.Sizes) -> stages.Row:
        """Estimate the number of queries and the disk space of the run."""
        count = sizes.queries(self.split)
        return stages.Row(count, "queries", disk=count * _LISTED * 20)

    def make(self, context: "stages.StageContext[CandidateLists]") -> stages.Facts:
        """Write the run with negative ranks as scores, and return counts. Raises DataError for an empty run."""
        collection = stage_work.open_collection(context.inputs["dataset"])
        lists, missing = read_lists(Path(self.file).expanduser()), "documents that are not in the corpus"
        counts = {"queries without a list": 0, missing: 0}

        def documents_of(query_id: str) -> list[str]:
            names = list(lists.get(query_id) or lists.get(query_id.removesuffix(ORIGINAL).removesuffix(CHANGED), {}))
            rows = collection.corpus.rows(names).tolist()
            counts[missing] += rows.count(-1)
            return [doc_id for doc_id, row in zip(names, rows, strict=True) if row >= 0]

        if not _write(context, collection, self.split, documents_of, counts):
            raise errors.DataError(f"{self.file}: has no documents of the corpus for the queries of split {self.split}")
        return counts


def read_lists(path: Path) -> dict[str, dict[str, None]]:
    """Return, for each query id, distinct document ids as keys in file order. Raises DataError for a malformed row."""
    lists: dict[str, dict[str, None]] = {}
    for row in read_tables([path]):
        one = "qid" in row.cells
        documents = lists.setdefault(row.id("qid" if one else "query-id"), {})
        documents.update(dict.fromkeys([row.id("pid")] if one else row.ids("corpus-ids")))
    return lists


class JudgedNegatives(stages.RunSpec):
    """Lists the documents judged not relevant to the queries of a split, in the order of the judgements.

    In Promptriever's data, these documents answer the query but violate the instruction. `mine` selects negatives from
    this run alone or, with miner `union`, from several runs.

    Source: Weller et al., Promptriever (ICLR 2025), on instruction negatives.

    split: the split of the queries. highest: highest grade that counts as not relevant.
    """

    version = 1
    purpose = "list the passages judged not relevant, by people or a language model"
    stage: Literal["judged-negatives"]
    split: fields.Name = "train"
    highest: int = Field(default=0, le=0)

    def estimate(self, sizes: stages.Sizes) -> stages.Row:
        """Estimate the number of queries and the disk space of the run."""
        count = sizes.queries(self.split)
        return stages.Row(count, "queries", disk=count * _JUDGED * 20)

    def make(self, context: "stages.StageContext[JudgedNegatives]") -> stages.Facts:
        """Write the run with negative ranks as scores, and return counts. Raises DataError for an empty run."""
        collection = stage_work.open_collection(context.inputs["dataset"])
        qrels, counts = collection.qrels(self.split), {"documents": 0, "queries without documents": 0}

        def documents_of(query_id: str) -> list[str]:
            judged = qrels.get(query_id, {}).items()
            return [doc_id for doc_id, relevance in judged if relevance <= self.highest]

        counts["documents"] = _write(context, collection, self.split, documents_of, counts)
        if not counts["documents"]:
            reason = f"no query of split {self.split} has a document judged {self.highest} or below"
            raise errors.DataError(f"{context.name}: {reason}; use another dataset, or remove the stage")
        return counts


def _write(
    context: stages.StageContext[Any],
    collection: StoredCollection,
    split: str,
    documents_of: Callable[[str], Sequence[str]],
    counts: dict[str, int],
) -> int:
    """Write each query's documents except excluded ones, scored by negative ranks. Return the number written.

    counts: updated with the numbers of queries, of queries without documents, and of excluded documents.
    """
    queries, excluded, total = stage_work.open_queries(context, collection, split), collection.excluded(), 0
    without = next(name for name in counts if name.startswith("queries without"))
    counts["queries"] = len(queries)

    def ranked() -> Iterator[tuple[str, RankedList]]:
        nonlocal total
        for query_id in queries.query_ids:
            doc_ids, out = documents_of(query_id), {*excluded.get(query_id, ())}
            remaining = [doc_id for doc_id in doc_ids if doc_id not in out]
            if len(remaining) < len(doc_ids):
                counts["documents excluded"] = counts.get("documents excluded", 0) + len(doc_ids) - len(remaining)
            total += len(remaining)
            counts[without] += not remaining
            if remaining:
                yield query_id, RankedList(remaining, -np.arange(1, len(remaining) + 1, dtype=np.float32))

    run_files.write_run(context.folder / layout.RUN, ranked())
    return total
