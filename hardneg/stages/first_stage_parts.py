"""Analyses of first stages that a recipe describes in several values: depths, candidates, dimensions."""

from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field, PositiveInt, model_validator

from hardneg.analysis.candidates import COUNTS
from hardneg.analysis.depths import DEPTHS
from hardneg.fields import MetricName, Name, Reference
from hardneg.stages.analysis_parts import Part, Runs

_Cuts = Annotated[tuple[PositiveInt, ...], Field(min_length=1)]


class Depths(Part):
    """Recall of runs at each of `depths`, and nDCG at the deepest."""

    runs: Runs = Field(min_length=1)
    depths: _Cuts = DEPTHS


class CandidateNumbers(Part):
    """Quality of reranking the first so many candidates, for each of `counts`, from runs that were reranked once.

    first: by label the run that was reranked; reranked: by the same labels what came of it.
    """

    first: Runs = Field(min_length=1)
    reranked: Runs = Field(min_length=1)
    counts: _Cuts = COUNTS
    metric: MetricName = "ndcg@10"

    @model_validator(mode="after")
    def _paired(self) -> "CandidateNumbers":
        if list(self.first) != list(self.reranked):
            raise ValueError("first and reranked need the same labels, in the same order")
        return self


class Dimensions(Part):
    """A metric by the size of vectors: by label, and by size, the run of a model with vectors of that size."""

    runs: dict[Name, Annotated[dict[PositiveInt, Name], Field(min_length=1)]] = Field(min_length=1)
    metric: MetricName = "recall@200"

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Every run, as `runs.LABEL.SIZE`."""
        for label, runs in self.runs.items():
            yield from ((f"runs.{label}.{size}", name, Reference(("run",))) for size, name in runs.items())

    def identity(self) -> dict[str, Any]:
        """Its labels and sizes, and the metric."""
        return {"runs": [[label, sorted(runs)] for label, runs in self.runs.items()], "metric": self.metric}
