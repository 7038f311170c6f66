"""What a recipe may say of runs that become one."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, model_validator

from hardneg.errors import UsageError
from hardneg.fusion.methods import AnyMethod, Fusion
from hardneg.fusion.through_ranx import Norm
from hardneg.fusion.tuning import check_grid
from hardneg.registry import suggestion
from hardneg.stages.analysis_parts import Part, Runs, part_references, parts_of
from hardneg.stages.spec_parts import LATER, MetricName, Name, Reference, StageSpec


class Tuning(Part):
    """Runs of other queries, by the labels of those that are fused, to choose weights or other numbers by.

    grid: values to try by name: of a run, whose weight they are, or `constant` or `parameter`; every combination is
    tried. Without it, all weights in tenths that sum to 1 are. split: of those runs.
    """

    runs: Runs = Field(min_length=2)
    split: Name = "dev"
    metric: MetricName = "ndcg@10"
    relevance_level: int = Field(1, gt=0)
    grid: dict[Name, Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]] = Field(default_factory=dict)


class FuseSpec(StageSpec):
    """Makes one run of several: the documents of all, by turns or by a sum over the runs.

    method: `zip` takes them by turns, the first run first; `weighted-sum` adds scores, `reciprocal-rank` adds 1 /
    (constant + rank); the others are ranx's, by its names, on scores that `norm` (min-max by default) brings to one
    scale. weights: by the label of a run; 1 where none is given. missing_scores: what `weighted-sum` adds for a
    document that a run lacks: the lowest score of that run's list, or zero. parameter: the number that `gmnz`,
    `logn_isr`, `rbc` or `rrf` have. tuning: what to choose these by.
    """

    version = 1
    kind = "run"
    needs_dataset = True
    stage: Literal["fuse"]
    runs: Annotated[dict[str, Name], Reference(("run",)), Field(min_length=2)]
    method: AnyMethod = "weighted-sum"
    weights: Mapping[str, FiniteFloat] = Field(default_factory=dict)
    missing_scores: Literal["lowest", "zero"] = "lowest"
    constant: int = Field(default=60, ge=0)
    norm: Norm | None = Field(default=None, json_schema_extra=LATER)
    parameter: FiniteFloat | None = Field(default=None, json_schema_extra=LATER)
    tuning: Tuning | None = None
    split: Name = "test"
    depth: int = Field(default=100, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> "FuseSpec":
        for label in self.weights:
            if label not in self.runs:
                raise ValueError(f"weights: no run is called {label!r}{suggestion(label, self.runs)}")
        tuned = self.tuning is not None and "parameter" in self.tuning.grid
        if problems := [each for each in self.fusion.problems() if not (tuned and each.startswith("parameter: "))]:
            raise ValueError("; ".join(problems))
        if self.tuning:
            self._check(self.tuning)
        return self

    def _check(self, tuning: Tuning) -> None:
        if tuning.split == self.split:
            raise ValueError(f"tuning.split: {self.split} is what is fused; tune on the queries of another split")
        if set(tuning.runs) != set(self.runs):
            raise ValueError(f"tuning.runs: must have the labels of runs: {', '.join(self.runs)}")
        try:
            check_grid(self.method, self.labels, tuning.grid)
        except UsageError as error:
            raise ValueError(f"tuning: {error}") from None

    @property
    def labels(self) -> list[str]:
        """The runs in the order in which they are taken: the recipe's for `zip`, where it matters."""
        return list(self.runs) if self.method == "zip" else sorted(self.runs)

    @property
    def fusion(self) -> Fusion:
        """How lists in the order of `labels` become one, not tuned."""
        weights = tuple(self.weights.get(label, 1.0) for label in self.labels)
        return Fusion(self.method, weights, self.missing_scores, self.constant, self.norm, self.parameter, self.depth)

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Those of the tuning too."""
        yield from super().references()
        yield from part_references(parts_of(self))

    def identity(self) -> dict[str, Any]:
        """Weights that are not given count as 1; the order of the runs counts where it matters."""
        weights = dict(zip(self.labels, self.fusion.weights, strict=True))
        identity = {**super().identity(), "weights": weights} | ({"order": self.labels} if self.method == "zip" else {})
        del identity["tuning"]
        return identity | {name: part.identity() for name, part in parts_of(self).items()}
