"""Stage `search`: the best documents for the queries of one split, of all or of a run's, as a TREC run."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from hardneg.fields import FREE, LATER, SPLIT, InputFile, Name, Reference, Trait
from hardneg.records.depths import LIST_DEPTH
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.stage_spec import RecipeView, Row, RunSpec, Sizes

if TYPE_CHECKING:
    from hardneg.verbs.shared.searching import SearchBlocks

_PURPOSES = {
    "train": "rank the passages for the training queries, to mine from",
    "dev": "rank the passages for the dev queries, for validation and tuning",
    "test": "rank the passages for the test queries, to measure",
}


class Search(RunSpec):
    """Searches an index for the queries of one split; queries are encoded in fp32, as Pyserini does it.

    model: encodes the queries; by default the model that encoded the index. candidates: ranks the documents of this run
    by their vectors in the index, instead of the whole corpus. positives: behind each list of a dense index stand the
    known positives that it lacks, at their own scores; such a run is for mining, not to be measured. text_of: with
    `positive` each query's first known positive is searched with in place of the query, encoded as a document; such a
    run is for mining too, and has no queries without positives. scores: `angular` are 1 - arccos(cosine) / pi, in the
    same order, for an index of normalised vectors. queries: a file of queries to search for in place of a split, of
    which nothing is known; they stand beside the run for `rerank` and `label`. query_vectors: the queries' vectors,
    which no model has to encode then; query_ids: of an array, whose they are.
    """

    version = 1
    purpose = "rank the passages for the queries"
    every_process = True
    stage: Literal["search"]
    index: Annotated[Name, Reference(("index",))]
    model: Annotated[Name | None, Reference(("model",))] = None
    candidates: Annotated[Name | None, Reference(("run",), passes=(Trait.ADDED_POSITIVES,))] = None
    split: Name = Field("test", description=SPLIT)
    depth: int = Field(LIST_DEPTH, gt=0, description="How many documents are ranked for each query.")
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    query_prompt: str | None = Field(
        default=None, json_schema_extra=LATER, description="The prompt before each query, in place of the model's."
    )
    positives: bool = Field(default=False, json_schema_extra=LATER)
    text_of: Literal["query", "positive"] = Field(default="query", json_schema_extra=LATER)
    scores: Literal["own", "angular"] = Field(default="own", json_schema_extra=LATER)
    queries: Annotated[Name | None, InputFile("queries, an id, a tab and a text a line")] = Field(
        default=None, json_schema_extra=FREE
    )
    query_vectors: Annotated[Name | None, InputFile("vectors of the queries, Parquet, JSON Lines or .npy")] = Field(
        default=None, json_schema_extra=FREE
    )
    query_ids: Annotated[Name | None, InputFile("the id of each vector of an array, one a line")] = Field(
        default=None, json_schema_extra=FREE
    )

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """What an index over texts cannot give, cosines of a model that has none, and vectors of queries."""
        yield from self._problems_of_vectors(recipe)
        texts = Trait.TEXTS in recipe.traits(self.index)
        if texts and self.model is not None:
            yield f"model: {self.index!r} is searched with texts, not vectors; leave the model out"
        if self.query_prompt is not None and (texts or self.query_vectors is not None or self.text_of != "query"):
            yield "query_prompt: no model encodes queries here; leave it out"
        if texts and self.positives:
            yield f"positives: {self.index!r} holds texts, which have no scores of their own"
        yield from self._problems_of_positives()
        if self.scores == "angular" and recipe.model.similarity is not None:
            if recipe.model.similarity != "cosine":
                yield f"scores: angular needs model.similarity: cosine, not {recipe.model.similarity}; leave it out"
            elif texts:
                yield f"scores: angular needs vectors, and {self.index} has none; leave it out"

    def _problems_of_positives(self) -> Iterator[str]:
        if self.text_of == "query":
            return
        if self.queries is not None:
            yield "text_of: nothing is known of the queries of a file; leave queries out, or text_of"
        if self.query_vectors is not None:
            yield "text_of: the positives are encoded; leave query_vectors out, or text_of"
        if self.positives:
            yield "positives: each query's own positive would head its list; leave positives out, or text_of"

    def _problems_of_vectors(self, recipe: RecipeView) -> Iterator[str]:
        traits = recipe.traits(self.index)
        if self.query_ids is not None and self.query_vectors is None:
            yield "query_ids: goes with query_vectors; give the array too, or leave it out"
        if self.query_vectors is None:
            if Trait.IMPORTED in traits and self.model is None and recipe.query_model(self.index) is None:
                unknown = f"no model is known that encodes queries for {self.index!r}, of imported vectors"
                yield f"query_vectors: missing; {unknown}: give a file of theirs, or model"
            return
        if Trait.TEXTS in traits:
            yield f"query_vectors: {self.index!r} is searched with texts, not vectors; leave them out"
        if self.model is not None:
            yield "model: the queries have vectors; leave the model out, or query_vectors"
        if self.scores == "angular":
            yield "scores: angular needs the cosines of a model, and query_vectors have none; leave it out"

    def why(self) -> str:
        """By the split what the run is for."""
        return self.purpose if self.queries is not None else _PURPOSES.get(self.split, self.purpose)

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The model that encoded the index."""
        own = recipe.query_model(self.index) if self.model is None and self.query_vectors is None else None
        return {} if own is None else {"model": own}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Positives that were not found, and queries of a file."""
        own = {
            Trait.ADDED_POSITIVES: self.positives or self.text_of == "positive",
            Trait.OWN_QUERIES: self.queries is not None,
            Trait.OF_POSITIVES: self.text_of == "positive",
        }
        return {**super().traits(recipe), **{trait: recipe.name for trait, has in own.items() if has}}

    def list_length(self, recipe: RecipeView) -> int:
        """Its depth, or what there is to rank; positives that are added stand beyond it."""
        candidates = recipe.list_length(self.candidates) if self.candidates else None
        return self.depth if candidates is None else min(self.depth, candidates)

    def estimate(self, sizes: Sizes) -> Row:
        """By the query."""
        count = sizes.queries(self.split)
        return Row(count, "queries", count * self.depth * 20)

    def blocks(self, context: "StageContext[Search]", first: bool = True) -> "SearchBlocks":
        """Blocks of queries; those that follow each other share a pass over the index."""
        from hardneg.verbs.shared.searching import SearchBlocks

        return SearchBlocks.opened(context, first)
