"""Verb `judged-negatives`: what was judged not relevant, as a run to mine from."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from hardneg.plugin import (
    DataError,
    Facts,
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
from hardneg_instructions.listed import listed

_DOCUMENTS = 3
"""How many a query has, for estimates: Promptriever's have up to three."""


class JudgedNegatives(RunSpec):
    """Lists the documents that are judged not relevant to the queries of a split, in the order of the judgements.

    Of Promptriever's data these answer the query and not the instruction. `mine` takes negatives from this run, alone
    or with the miner `union` beside others.

    Source: Weller et al., Promptriever (ICLR 2025), on instruction negatives.

    split: whose queries. highest: the highest relevance that still counts as not relevant.
    """

    version = 1
    purpose = "list the passages that are judged not relevant: negatives that people or a language model have chosen"
    stage: Literal["judged-negatives"]
    split: Name = "train"
    highest: int = Field(default=0, le=0)

    def estimate(self, sizes: Sizes) -> Row:
        """By the query."""
        count = sizes.queries(self.split)
        return Row(count, "queries", disk=count * _DOCUMENTS * 20)

    def make(self, context: "StageContext[JudgedNegatives]") -> Facts:
        """Writes the run; a document's score is minus its rank, for judgements have no order.

        Raises:
            DataError: no query has such a document.
        """
        collection = open_collection(context.inputs["dataset"])
        queries, qrels = open_queries(context, collection, self.split), collection.qrels(self.split)
        counts = {"queries": len(queries), "documents": 0, "queries without documents": 0}
        excluded = collection.excluded()

        def lists() -> Iterator[tuple[str, RankedList]]:
            for query_id in queries.query_ids:
                judged = qrels.get(query_id, {}).items()
                doc_ids = [doc_id for doc_id, relevance in judged if relevance <= self.highest]
                ranked_list = listed(doc_ids, {*excluded.get(query_id, ())}, counts)
                counts["documents"] += len(ranked_list.doc_ids)
                counts["queries without documents"] += not ranked_list.doc_ids
                if ranked_list.doc_ids:
                    yield query_id, ranked_list

        run_files.write_run(context.folder / layout.RUN, lists())
        if not counts["documents"]:
            reason = f"no query of split {self.split} has a document that is judged {self.highest} or below"
            raise DataError(f"{context.name}: {reason}: take another dataset, or leave the stage out")
        return counts
