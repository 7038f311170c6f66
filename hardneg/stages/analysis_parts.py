"""Analyses that a recipe describes in several values: overlap, holes, wins, denoising, planted."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardneg.analysis.planted import THRESHOLDS
from hardneg.fields import MetricName, Name, Reference, marked_references
from hardneg.miners.rules import RULES
from hardneg.registry import suggestion

Runs = Annotated[dict[Name, Name], Reference(("run",))]
Run = Annotated[Name, Reference(("run",))]


class Part(BaseModel):
    """One such analysis; stages are referred to by marked fields, as in the spec of a stage."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Every reference: its path in this part, the stage it names, and what it needs."""
        return marked_references(self)

    def identity(self) -> dict[str, Any]:
        """Its values; of references the labels alone, in their order."""
        marked = {field for field, info in type(self).model_fields.items() if Reference in map(type, info.metadata)}
        labels = {field: list(value) for field in marked if isinstance(value := getattr(self, field), Mapping)}
        return {**self.model_dump(mode="json", exclude=marked), **labels}


class Overlap(Part):
    """How much of one list is in another, `depth` deep.

    runs: with `against`, one of their labels; without it each with each. negatives: what was trained on, by label; met:
    by the same labels, runs of the trained models over the same queries.
    """

    runs: Runs = Field(default_factory=dict)
    against: Name | None = None
    negatives: Annotated[dict[Name, Name], Reference(("negatives",))] = Field(default_factory=dict)
    met: Runs = Field(default_factory=dict)
    depth: int = Field(100, gt=0)

    @model_validator(mode="after")
    def _complete(self) -> "Overlap":
        _check_label(self.against, self.runs)
        if list(self.negatives) != list(self.met):
            raise ValueError("negatives and met need the same labels, in the same order")
        if len(self.runs) < 2 and not self.negatives:
            raise ValueError("give two runs, or negatives and the runs in which they are met")
        return self


class Holes(Part):
    """The share of each run's first `depth` documents that nobody judged, beside metrics and overlap.

    against: the label of the run to overlap with, `overlap_depth` deep.
    """

    runs: Runs = Field(min_length=1)
    against: Name | None = None
    depth: int = Field(10, gt=0)
    overlap_depth: int = Field(100, gt=0)
    metrics: tuple[MetricName, ...] = Field(("ndcg@10",), min_length=1)

    @model_validator(mode="after")
    def _known(self) -> "Holes":
        _check_label(self.against, self.runs)
        return self


class Wins(Part):
    """One run against another, query by query, by a metric; `examples`: how many of each side the report shows."""

    run: Run
    against: Run
    metric: MetricName = "ndcg@10"
    examples: int = Field(5, gt=0)


class Denoising(Part):
    """What filters of negatives dropped, by rank; `examples`: how many queries of each the report shows."""

    negatives: Annotated[dict[Name, Name], Reference(("negatives",))] = Field(min_length=1)
    examples: int = Field(5, ge=0)


class Planted(Part):
    """How many of the positives that the dataset withholds each filter of negatives removes, and what else it removes.

    run: whose first `depth` documents are filtered. scores: runs over the same queries whose scores decide, by label;
    none: those of `run`. thresholds: by the name of the filtering miner.
    """

    run: Run
    scores: Runs = Field(default_factory=dict)
    thresholds: dict[Name, Annotated[tuple[float, ...], Field(min_length=1)]] = Field(
        default_factory=lambda: dict(THRESHOLDS)
    )
    depth: int = Field(50, gt=0)
    split: Name = "train"

    @model_validator(mode="after")
    def _known(self) -> "Planted":
        for name in self.thresholds:
            if name not in RULES:
                raise ValueError(f"thresholds: no filter {name}{suggestion(name, RULES)}; there are {', '.join(RULES)}")
        return self

    def missing(self, withheld: Mapping[str, Any]) -> Iterator[str]:
        """Hidden positives of queries that keep others; `withheld` is what stage `dataset` told of them."""
        hidden = withheld.get("hidden", {self.split: 1})  # collections may be stored that were not asked for it
        if not withheld.get("judgements"):
            yield "planted: this dataset withholds no judgements: give it `withheld`, or leave planted out"
        elif not hidden:
            told = "no positive is hidden of a query that keeps another"
            yield f"planted: {told}: raise dataset.withheld.positives, or leave planted out where queries have one each"
        elif self.split not in hidden:
            yield f"planted.split: no positives of split {self.split} are hidden; there are some of {', '.join(hidden)}"


def _check_label(label: str | None, labels: Collection[str]) -> None:
    """A ValueError where `against` is none of the labels."""
    if label is not None and label not in labels:
        raise ValueError(f"against: no run is labelled {label}; runs has {', '.join(labels) or 'none'}")


def parts_of(spec: BaseModel) -> dict[str, Part]:
    """The parts that a spec has, by field."""
    values = ((field, getattr(spec, field)) for field in type(spec).model_fields)
    return {field: value for field, value in values if isinstance(value, Part)}


def part_references(parts: Mapping[str, Part]) -> Iterable[tuple[str, str, Reference]]:
    """Theirs, each path after the part's field."""
    for field, part in parts.items():
        yield from ((f"{field}.{path}", name, needed) for path, name, needed in part.references())
