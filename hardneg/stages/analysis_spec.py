"""What a recipe may say of an analysis."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hardneg.fields import LATER, MEASURED, Name, Reference, Trait, parse_names
from hardneg.stages.analysis_parts import Denoising, Holes, Overlap, Planted, Runs, Wins, part_references, parts_of
from hardneg.stages.first_stage_parts import CandidateNumbers, Depths, Dimensions
from hardneg.stages.spec import BLOCK_BYTES, RecipeView, Row, Sizes, StageSpec

if TYPE_CHECKING:
    from hardneg.reporting.table import Section
    from hardneg.stages.context import ArtifactInput

_COSTED = Reference(("model", "index", "run", "negatives"))
_LABELS = ("gradients", "refreshes", "scores", "sizes", "operations")
_PARTS = ("overlap", "holes", "wins", "denoising", "planted", "depths", "candidates", "dimensions")
_ANALYSES = ("indexes", "runs", "training", *_LABELS, *_PARTS, "costs", "evaluation", "matrix")


_MEASURED = ("holes", "wins", "depths", "candidates", "dimensions")
"""Analyses with metrics of runs."""
_VECTORS = Reference(
    ("index",),
    refuses={Trait.TEXTS: "search it and name the run in `runs`", Trait.SEGMENTS: "name one without `segments`"},
)


class Projection(BaseModel):
    """Which query to show among its documents, before and after: labels of `indexes`.

    query: its id; by default the first one that has positives. negatives: how many, those ranked highest before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: Name
    after: Name
    query: Name | None = None
    negatives: int = Field(default=100, gt=0)


class Matrix(BaseModel):
    """An evaluation's systems as a table of two axes: row to column to the system's label; cells may be missing.

    metric: by default the evaluation's first. axes: what the rows are, and what the columns are, in words.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    evaluation: Name
    rows: dict[Name, dict[Name, Name]] = Field(min_length=1)
    metric: Name | None = None
    axes: tuple[str, str] = ("", "")
    figure: Literal["heatmap", "lines"] = "heatmap"


class AnalyzeSpec(StageSpec):
    """Numbers and figures of what lies behind the metrics; makes those analyses whose inputs are given.

    indexes, runs: pairwise errors by label; total ones need the index. models: encodes the queries of the index of the
    same label; by default the model that encoded it. training: drift of fixed negatives. gradients, refreshes: of
    trainings. scores: their tails; score_queries: single queries to show too, by id or so many by `seed`. overlap,
    holes, wins: of runs. denoising: what filters of negatives dropped. planted: how many of the positives that the
    dataset withholds filters would drop. depths: what first stages find. candidates: what reranking fewer costs.
    dimensions: what the size of vectors does. evaluation, metric: bars of an ablation (metric: the first one by
    default). matrix: systems of an evaluation by two axes. projection: a query among its documents. costs: of methods,
    each a stage or a list of them, summed. sizes: of indexes on disk, by label. operations: the time of one document,
    query or step of stages, by label.
    """

    version = 1
    kind = "analysis"
    needs_dataset = True
    stage: Literal["analyze"]
    indexes: Annotated[dict[str, Name], _VECTORS] = Field(default_factory=dict)
    models: Annotated[dict[str, Name], Reference(("model",))] = Field(default_factory=dict)
    runs: Annotated[dict[str, Name], Reference(("run",))] = Field(default_factory=dict)
    training: Annotated[dict[str, Name], Reference(("model",))] = Field(default_factory=dict)
    gradients: Annotated[dict[str, Name], Reference(("model",))] = Field(default_factory=dict)
    refreshes: Annotated[dict[str, Name], Reference(("model",))] = Field(default_factory=dict)
    scores: Runs = Field(default_factory=dict)
    score_queries: Annotated[int, Field(ge=0)] | tuple[Name, ...] = Field(default=0, json_schema_extra=LATER)
    overlap: Overlap | None = None
    holes: Holes | None = None
    wins: Wins | None = None
    denoising: Denoising | None = None
    planted: Planted | None = None
    depths: Depths | None = None
    candidates: CandidateNumbers | None = None
    dimensions: Dimensions | None = None
    costs: dict[str, Annotated[tuple[Name, ...], BeforeValidator(parse_names)]] = Field(default_factory=dict)
    evaluation: Annotated[Name | None, Reference(("metrics",))] = None
    metric: Name | None = None
    matrix: Matrix | None = None
    projection: Projection | None = None
    operations: Annotated[dict[str, Name], _COSTED] = Field(default_factory=dict)
    sizes: Annotated[dict[str, Name], Reference(("index",))] = Field(default_factory=dict)
    split: Name = "test"
    cut: int = Field(200, gt=0)
    relevance_level: int = Field(1, gt=0)
    seed: int = 42

    def sections(self, sources: "Mapping[str, ArtifactInput]") -> "list[Section]":
        """A table and a figure of each analysis."""
        from hardneg.stages.analysis_sections import sections

        return [
            section
            for label, source in sources.items()
            for section in sections(label, source.folder, source.facts["analyses"])
        ]

    @model_validator(mode="after")
    def _complete(self) -> "AnalyzeSpec":
        if not any(getattr(self, name) for name in _ANALYSES):
            raise ValueError(f"nothing to analyze: give {', '.join(_ANALYSES[:-1])} or {_ANALYSES[-1]}")
        named = {*self.models, *((self.projection.before, self.projection.after) if self.projection else ())}
        if unknown := sorted(named - set(self.indexes)):
            raise ValueError(
                f"no index is labelled {', '.join(unknown)}; indexes has {', '.join(self.indexes) or 'none'}"
            )
        if self.projection and self.projection.before == self.projection.after:
            raise ValueError(f"projection: before and after are both {self.projection.after}: name two indexes")
        if both := sorted(set(self.indexes) & set(self.runs)):
            raise ValueError(f"{', '.join(both)} labels an index and a run: give each a label of its own")
        return self

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Those of the costs too, `costs.LABEL.NUMBER`, and those of parts such as `matrix.evaluation`."""
        yield from super().references()
        for path, name, need in part_references(parts_of(self)):
            measured = path.partition(".")[0] in _MEASURED and "run" in need.kinds
            yield path, name, MEASURED if measured else need
        for label, names in self.costs.items():
            yield from ((f"costs.{label}.{i}", name, _COSTED) for i, name in enumerate(names))
        if self.matrix:
            yield "matrix.evaluation", self.matrix.evaluation, Reference(("metrics",))

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The models that encoded the indexes for which none is named."""
        found = {label: recipe.query_model(index) for label, index in self.indexes.items() if label not in self.models}
        return {f"models.{label}": model for label, model in found.items() if model}

    def extras(self) -> tuple[str, ...]:
        """The projection's."""
        return ("analysis",) if self.projection else ()

    def estimate(self, sizes: Sizes) -> Row:
        """By the query, and what exact search takes of each index."""
        count, passes = sizes.queries(self.split), 2 * len(self.indexes)
        scores = sizes.machine.searching(passes * count, sizes.documents, sizes.dimension) if passes else 0.0
        return Row(count, "queries", 1_000_000 + 100 * count, seconds=scores + 10, held=BLOCK_BYTES)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """All of it, in a folder of the stage's name."""
        return {f"analyses/{recipe.name}": "."}

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """Withheld positives, where filters are measured by them."""
        if self.planted:
            yield from self.planted.missing(collection.get("withheld", {}))

    def identity(self) -> dict[str, Any]:
        """The order and the names of the rows count too; stages count by their keys."""
        rows = (self.indexes, self.runs, self.training, self.costs)
        identity = {**super().identity(), "costs": None, "labels": [list(labels) for labels in rows]}
        for name in ("matrix", *_PARTS):
            del identity[name]
        if self.matrix:
            cells = [[row, list(columns.items())] for row, columns in self.matrix.rows.items()]
            identity["matrix"] = {**self.matrix.model_dump(mode="json", exclude={"evaluation"}), "rows": cells}
        labels = {name: list(getattr(self, name)) for name in _LABELS if getattr(self, name)}
        return identity | labels | {name: part.identity() for name, part in parts_of(self).items()}
