"""Verb `round-trip`: of written queries those stay whose passage a retriever finds again."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from hardneg.fields import MEASURED, Name, Trait
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.qrels import Exclusion
from hardneg.formats.runs import lists_in_order, write_run
from hardneg.records import RETURN_DEPTH, RUN, DataError, Document, Judgement, Membership, Query, RankedList, Side
from hardneg.stages.shared.context import Facts, StageContext
from hardneg.stages.shared.inputs import open_collection, open_queries
from hardneg.stages.shared.stage_spec import RecipeView, StageSpec


class RoundTrip(StageSpec):
    """Keeps the queries of one split for which a run has a relevant passage near its top: a collection with these.

    The run of the queries that stay is part of the result, to mine from. Queries of other splits stay as they are: what
    is measured by them would be chosen by the retriever otherwise.

    Source: for the test, Alberti et al., Synthetic QA Corpora Generation with Roundtrip Consistency (ACL 2019); with a
    retriever, Dai et al., Promptagator: Few-shot Dense Retrieval From 8 Examples (ICLR 2023).
    """

    version = 1
    artifact_type = "collection"
    query_disk = (0, 4_000)
    purpose = "keep the written queries whose passage a retriever finds again"
    needs_dataset = True
    stage: Literal["round-trip"]
    run: Annotated[Name, MEASURED] = Field(description="A search for the queries of the split.")
    split: Name = Field("train", description="The split whose queries go.")
    depth: int = Field(RETURN_DEPTH, gt=0, description="A relevant passage must be among so many.")

    @property
    def parts(self) -> dict[str, str]:
        return {"collection": ".", "run": "."}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), Trait.WRITTEN_QUERIES: recipe.name}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """A run that is too short, or of the queries of another collection."""
        length, searched = recipe.list_length(self.run), recipe.stages.get(self.run)
        if length is not None and length < self.depth:
            yield f"depth: {self.run!r} has {length} documents a query; take a depth up to that, or search deeper"
        if searched is not None and (searched.dataset or "") != (self.dataset or ""):
            yield f"dataset: {self.run!r} searches for the queries of another one; name the same for both"

    def make(self, context: "StageContext[RoundTrip]") -> Facts:
        """Writes the collection and the run; facts: how many queries stay, and how many were not found.

        Raises:
            DataError: none stays.
        """
        collection = open_collection(context.inputs["dataset"])
        queries = open_queries(context, collection, self.split)
        returned, missed, qrels = _Returned(collection, self.split, set()), Counter[str](), collection.qrels(self.split)

        def staying() -> Iterator[tuple[str, RankedList]]:
            lists = lists_in_order(context.inputs["run"].folder / RUN, queries.query_ids)
            for query_id, ranked in zip(queries.query_ids, lists, strict=True):
                judged = qrels.get(query_id, {})
                if any(judged.get(doc_id, 0) > 0 for doc_id in ranked.doc_ids[: self.depth]):
                    returned.query_ids.add(query_id)
                    yield query_id, ranked
                else:
                    missed[query_id.partition(":")[0]] += 1

        write_run(context.folder / RUN, staying())
        if not returned.query_ids:
            problem = f"no passage of {len(queries)} queries is among the first {self.depth} of {self.run}"
            raise DataError(f"{context.name}: {problem}; take a larger depth, or another retriever")
        facts = write_collection(returned, context.folder, context.progress, collection.corpus)
        left_out = {f"queries left out, by {writer}": count for writer, count in sorted(missed.items())}
        return {**facts, "queries that stay": len(returned.query_ids), **left_out}


@dataclass(frozen=True)
class _Returned:
    """A stored collection with some of the queries of one split."""

    whole: StoredCollection
    split: str
    query_ids: set[str]

    def documents(self) -> Iterator[Document]:
        return self.whole.corpus.documents()

    def splits(self) -> Sequence[str]:
        return self.whole.splits

    def queries(self, split: str) -> Iterator[Query]:
        return (query for query in self.whole.queries(split) if split != self.split or query.query_id in self.query_ids)

    def qrels(self, split: str) -> Iterator[Judgement]:
        for query_id, judged in self.whole.judged(split).items():
            if split != self.split or query_id in self.query_ids:
                yield from (Judgement(query_id, *pair) for pair in judged.items())

    def groups(self, side: Side) -> Iterator[Membership]:
        return (Membership(*pair) for pair in self.whole.groups(side).items())

    def excluded(self) -> Iterator[Exclusion]:
        excluded = self.whole.excluded().items()
        return (Exclusion(query_id, doc_id) for query_id, doc_ids in excluded for doc_id in doc_ids)

    def notes(self) -> Sequence[str]:
        """None: the facts tell it."""
        return ()
