"""Verb `candidate-lists`: the documents that a collection brings for each query, as a run to search or rerank in."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from hardneg.plugin import (
    FREE,
    DataError,
    Facts,
    InputFile,
    Name,
    RankedList,
    Row,
    RunSpec,
    Sizes,
    StageContext,
    layout,
    open_collection,
    open_queries,
    run_files,
)
from hardneg_instructions.followir import CHANGED, ORIGINAL
from hardneg_instructions.listed import listed
from hardneg_instructions.tables import read_tables

_LISTED = 1000
"""How many documents FollowIR lists for a query, for estimates."""


class CandidateLists(RunSpec):
    """Lists the documents that a table has for each query of a split, in its order: FollowIR's `top_ranked`.

    A row is a query and a document, `qid` and `pid`, or a query and all its documents, `query-id` and `corpus-ids`. A
    list of query 310 is that of 310-og and of 310-changed too.

    Source: Weller et al., FollowIR (2024): these lists are ranked anew, and nothing else is.

    file: the table, Parquet or JSON Lines. split: whose queries.
    """

    version = 1
    purpose = "list the documents that the collection brings for each query"
    stage: Literal["candidate-lists"]
    file: Annotated[Name, InputFile("lists of documents, Parquet or JSON Lines")] = Field(json_schema_extra=FREE)
    split: Name = "test"

    def estimate(self, sizes: Sizes) -> Row:
        """By the query."""
        count = sizes.queries(self.split)
        return Row(count, "queries", disk=count * _LISTED * 20)

    def make(self, context: "StageContext[CandidateLists]") -> Facts:
        """Writes the run; a document's score is minus its rank. Raises DataError where no query has a list."""
        collection = open_collection(context.inputs["dataset"])
        queries, lists = open_queries(context, collection, self.split), read_lists(Path(self.file).expanduser())
        counts = {"queries": len(queries), "queries without a list": 0, "documents that the corpus lacks": 0}
        excluded = collection.excluded()

        def ranked() -> Iterator[tuple[str, RankedList]]:
            for query_id in queries.query_ids:
                names = lists.get(query_id) or lists.get(query_id.removesuffix(ORIGINAL).removesuffix(CHANGED), {})
                rows = collection.corpus.rows(list(names)).tolist()
                doc_ids = [doc_id for doc_id, row in zip(names, rows, strict=True) if row >= 0]
                counts["documents that the corpus lacks"] += len(names) - len(doc_ids)
                ranked_list = listed(doc_ids, {*excluded.get(query_id, ())}, counts)
                counts["queries without a list"] += not ranked_list.doc_ids
                if ranked_list.doc_ids:
                    yield query_id, ranked_list

        run_files.write_run(context.folder / layout.RUN, ranked())
        if counts["queries without a list"] == len(queries):
            raise DataError(f"{self.file}: lists no document of the corpus for a query of split {self.split}")
        return counts


def read_lists(path: Path) -> dict[str, dict[str, None]]:
    """The documents of each query, each once, in the file's order. Raises DataError where a row is none."""
    lists: dict[str, dict[str, None]] = {}
    for row in read_tables([path]):
        one = "qid" in row.cells
        listed = lists.setdefault(row.id("qid" if one else "query-id"), {})
        listed.update(dict.fromkeys([row.id("pid")] if one else row.ids("corpus-ids")))
    return lists
