"""What a recipe may say of an analysis."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hardneg.stages.spec_parts import Name, Reference, StageSpec, parse_names


class Projection(BaseModel):
    """Which query to show among its documents, before and after: labels of `indexes`.

    query: its id; by default the first one that has positives. negatives: how many, those ranked highest before.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    before: Name
    after: Name
    query: Name | None = None
    negatives: int = Field(default=100, gt=0)


class AnalyzeSpec(StageSpec):
    """Numbers and figures of what lies behind the metrics; makes those analyses whose inputs are given.

    indexes, runs: pairwise errors by label; total ones need the index. models: encodes the queries of the index of the
    same label; by default the model that encoded it. training: drift of fixed negatives. evaluation, metric: bars of an
    ablation (metric: the first one by default). projection: a query among its documents. costs: of methods, each a
    trained model or a list of them, summed.
    """

    version = 1
    kind = "analysis"
    needs_dataset = True
    stage: Literal["analyze"]
    indexes: Annotated[dict[str, Name], Reference(("index",))] = Field(default_factory=dict)
    models: Annotated[dict[str, Name], Reference(("model",))] = Field(default_factory=dict)
    runs: Annotated[dict[str, Name], Reference(("run",))] = Field(default_factory=dict)
    training: Annotated[dict[str, Name], Reference(("model",))] = Field(default_factory=dict)
    costs: dict[str, Annotated[tuple[Name, ...], BeforeValidator(parse_names)]] = Field(default_factory=dict)
    evaluation: Annotated[Name | None, Reference(("metrics",))] = None
    metric: Name | None = None
    projection: Projection | None = None
    split: Name = "test"
    cut: int = Field(200, gt=0)
    relevance_level: int = Field(1, gt=0)
    seed: int = 42

    @model_validator(mode="after")
    def _complete(self) -> "AnalyzeSpec":
        if not (self.indexes or self.runs or self.training or self.costs or self.evaluation):
            raise ValueError("nothing to analyze: give indexes, runs, training, costs or evaluation")
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
        """Those of the costs too, `costs.LABEL.NUMBER`."""
        yield from super().references()
        for label, names in self.costs.items():
            yield from ((f"costs.{label}.{i}", name, Reference(("model",))) for i, name in enumerate(names))

    def identity(self) -> dict[str, Any]:
        """The order and the names of the rows count too; stages count by their keys."""
        rows = (self.indexes, self.runs, self.training, self.costs)
        return {**super().identity(), "costs": None, "labels": [list(labels) for labels in rows]}
