"""All that a recipe may say: one frozen model a stage, references to other stages marked by the kind they need."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, model_validator

from hardneg.counting import counted
from hardneg.fields import (
    FREE,
    LATER,
    START,
    AnswerMatch,
    Backend,
    Dataset,
    Kept,
    MeasureName,
    Miner,
    Name,
    OwnCut,
    Reference,
    has_answers,
)
from hardneg.stages.spec import StageSpec

if TYPE_CHECKING:
    from hardneg.stages.context import ArtifactInput


class DatasetSpec(StageSpec):
    """Reads the collection into Arrow files: stage `dataset`, made from the recipe's `dataset`.

    withheld: training labels that are kept back.
    """

    version = 1
    kind = "collection"
    stage: Literal["dataset"] = "dataset"
    loader: Dataset
    withheld: Kept | None = Field(default=None, json_schema_extra=LATER)


class EncodeSpec(StageSpec):
    """Encodes the corpus into a flat index, which is the vector store too.

    segments: how long documents are cut into several vectors each; none reads their first `document_length` tokens.
    """

    version = 2
    every_process = True
    kind = "index"
    needs_dataset = True
    resumes = True
    stage: Literal["encode"]
    model: Annotated[Name, Reference(("model",))] = START
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    segments: OwnCut = Field(default=None, json_schema_extra=LATER)
    tokens_per_batch: int | None = Field(default=None, gt=0, json_schema_extra=FREE)


class IndexSpec(StageSpec):
    """Builds an index over the corpus's texts, such as BM25's, or over the `vectors` of a flat index."""

    version = 1
    kind = "index"
    needs_dataset = True
    stage: Literal["index"]
    backend: Backend
    vectors: Annotated[Name | None, Reference(("index",))] = None


class SearchSpec(StageSpec):
    """Searches an index for the queries of one split; queries are encoded in fp32, as Pyserini does it.

    model: encodes the queries; by default the model that encoded the index. candidates: ranks the documents of this run
    by their vectors in the index, instead of the whole corpus. positives: behind each list of a dense index stand the
    known positives that it lacks, at their own scores; such a run is for mining, not to be measured. scores: `angular`
    are 1 - arccos(cosine) / pi, in the same order, for an index of normalised vectors. queries: a file of queries to
    search for in place of a split, of which nothing is known; they stand beside the run for `rerank` and `label`.
    """

    version = 1
    every_process = True
    kind = "run"
    needs_dataset = True
    stage: Literal["search"]
    index: Annotated[Name, Reference(("index",))]
    model: Annotated[Name | None, Reference(("model",))] = None
    candidates: Annotated[Name | None, Reference(("run",))] = None
    split: Name = "test"
    depth: int = Field(default=100, gt=0)
    precision: Literal["auto", "fp32", "bf16"] = "fp32"
    positives: bool = Field(default=False, json_schema_extra=LATER)
    scores: Literal["own", "angular"] = Field(default="own", json_schema_extra=LATER)
    queries: Name | None = Field(default=None, json_schema_extra=FREE)


class MineSpec(StageSpec):
    """Selects negatives for the queries of one split; the first of `runs` is the list to select from.

    without_answers: documents that have an answer to the query are no negatives of it. pseudo_positives: the first of
    so many documents of that list that has an answer is the positive of a query for which none is known. answer_match:
    how answers are looked for: as words, or as regular expressions.
    """

    version = 1
    kind = "negatives"
    needs_dataset = True
    stage: Literal["mine"]
    miner: Miner
    runs: Annotated[dict[str, Name], Reference(("run",))] = Field(default_factory=dict)
    split: Name = "train"
    seed: int = 42
    without_answers: bool = Field(default=False, json_schema_extra=LATER)
    pseudo_positives: int | None = Field(default=None, gt=0, json_schema_extra=LATER)
    answer_match: AnswerMatch = Field(default="string", json_schema_extra=LATER)

    @model_validator(mode="after")
    def _complete(self) -> "MineSpec":
        if self.pseudo_positives and not self.runs:
            raise ValueError("pseudo_positives: they come from the first of `runs`, and there is none")
        return self

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers, where negatives or positives are told by them."""
        asked = [name for name in ("without_answers", "pseudo_positives") if getattr(self, name)]
        if asked and not has_answers(collection, self.split):
            yield f"{asked[0]}: needs answers, and split {self.split} has none: leave it out, or take another dataset"


class EvaluateSpec(StageSpec):
    """Scores runs on one split and compares them pairwise; `runs` maps a row's label to a stage.

    marks: a sign for rows that are significantly better than each row it names; by default each baseline has a sign.
    answer_match: how the metrics answer@k look for answers: as words, or as regular expressions.
    """

    version = 1
    kind = "metrics"
    needs_dataset = True
    stage: Literal["evaluate"]
    runs: Annotated[dict[str, Name], Reference(("run",))]
    split: Name = "test"
    metrics: Annotated[tuple[MeasureName, ...], Field(min_length=1)] = ("mrr@10", "ndcg@10", "recall@100")
    relevance_level: int = Field(1, gt=0)
    baselines: tuple[str, ...] = ()
    marks: dict[Annotated[str, Field(min_length=1, max_length=3)], tuple[str, ...]] = Field(default_factory=dict)
    seed: int = 42
    answer_match: AnswerMatch = Field(default="string", json_schema_extra=LATER)

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Answers, where a metric is about them."""
        asked = [name for name in self.metrics if name.startswith("answer@")]
        if asked and not has_answers(collection, self.split):
            yield f"metrics: {asked[0]} needs answers, and split {self.split} has none: take another dataset or metric"

    def identity(self) -> dict[str, Any]:
        """The order and the names of the rows count too; marks where there are some."""
        identity = {**super().identity(), "labels": list(self.runs)}
        return identity if self.marks else {name: value for name, value in identity.items() if name != "marks"}

    def settings(self, source: "ArtifactInput") -> Mapping[str, object]:
        """What was searched, for how many queries, and what is relevant."""
        queries = counted(source.facts["queries"], "query")
        told = {"passages": source.facts["passages"], "evaluated on": f"{queries} of split {self.split}"}
        return {**told, "relevant from grade": self.relevance_level}
