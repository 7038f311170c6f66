"""What a recipe may say of runs that become one."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, FiniteFloat, model_validator

from hardneg.registry import suggestion
from hardneg.stages.spec_parts import Name, Reference, StageSpec


class FuseSpec(StageSpec):
    """Makes one run of several: the documents of all, by a sum over the runs.

    method: `weighted-sum` adds scores, `reciprocal-rank` adds 1 / (constant + rank). weights: by the label of a run; 1
    where none is given. missing_scores: what `weighted-sum` adds for a document that a run lacks: the lowest score of
    that run's list, or zero.
    """

    version = 1
    kind = "run"
    needs_dataset = True
    stage: Literal["fuse"]
    runs: Annotated[dict[str, Name], Reference(("run",)), Field(min_length=2)]
    method: Literal["weighted-sum", "reciprocal-rank"] = "weighted-sum"
    weights: Mapping[str, FiniteFloat] = Field(default_factory=dict)
    missing_scores: Literal["lowest", "zero"] = "lowest"
    constant: int = Field(default=60, ge=0)
    split: Name = "test"
    depth: int = Field(default=100, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> "FuseSpec":
        for label in self.weights:
            if label not in self.runs:
                raise ValueError(f"weights: no run is called {label!r}{suggestion(label, self.runs)}")
        return self

    @property
    def weighted(self) -> dict[str, float]:
        """The weight of every run, by label."""
        return {label: self.weights.get(label, 1.0) for label in sorted(self.runs)}

    def identity(self) -> dict[str, Any]:
        """Weights that are not given count as 1."""
        return {**super().identity(), "weights": self.weighted}
