"""Stage `fuse`: several runs of one split as one."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from hardneg.evaluation import fusion_tuning, metrics
from hardneg.evaluation.fusion import Fusion, Method, Norm
from hardneg.fields import LATER, MEASURED, RELEVANT, MetricName, Name, Reference, marked_references
from hardneg.formats import qrels, runs
from hardneg.records import errors, layout, types, wording
from hardneg.stages.base import Facts, RecipeView, RunSpec, StageContext
from hardneg.stages.inputs import open_collection
from hardneg.store import replace_text


class Tuning(BaseModel):
    """Runs of other queries, those of `split`, by the labels of those that are fused, to choose numbers by."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    runs: Annotated[dict[Name, Name], MEASURED] = Field(min_length=2)
    split: Name = "dev"
    metric: MetricName = Field("ndcg@10", description="The metric to tune on.")
    relevance_level: int = Field(1, gt=0, description=RELEVANT)
    grid: dict[Name, Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Values of a run's weight or of `constant` to try, in all combinations; default: steps of 0.1.",
    )


class Fuse(RunSpec):
    """Makes one run of several: the documents of all, by turns or by a sum over the runs.

    `reciprocal-rank` adds weight / (constant + rank). `max`, `mnz` and `wsum` are ranx's and take scores that `norm`
    brings to one scale. tuning: what to choose weights or `constant` by.
    """

    version = 2
    purpose = "make one ranking out of several"
    stage: Literal["fuse"]
    runs: Annotated[dict[str, Name], MEASURED, Field(min_length=2)]
    method: Method = Field(
        "weighted-sum",
        description="zip (alternate between runs), weighted-sum (of scores), reciprocal-rank; ranx's max, mnz, wsum.",
    )
    weights: Mapping[str, FiniteFloat] = Field(
        default_factory=dict, description="A run's weight, by its label; default 1."
    )
    missing_scores: Literal["lowest", "zero"] = Field(
        "lowest", description="For weighted-sum: the score of a document in a run that lacks it, the run's lowest or 0."
    )
    constant: int = Field(Fusion.constant, ge=0, description="The constant of reciprocal-rank.")
    norm: Norm | None = Field(
        None, json_schema_extra=LATER, description="For ranx's methods: min-max (the default), none, zmuv, ..."
    )
    tuning: Tuning | None = Field(None, json_schema_extra=LATER)
    split: Name = "test"
    depth: int = Field(Fusion.depth, gt=0, description="Number of documents per query.")

    @model_validator(mode="after")
    def _complete(self) -> "Fuse":
        for label in self.weights:
            if label not in self.runs:
                raise ValueError(f"weights: no run is called {label!r}{wording.suggestion(label, self.runs)}")
        if problems := self.fusion.problems():
            raise ValueError("; ".join(problems))
        if (tuning := self.tuning) is None:
            return self
        if tuning.split == self.split:
            raise ValueError(f"tuning.split: {self.split} is what is fused; tune on the queries of another split")
        if set(tuning.runs) != set(self.runs):
            raise ValueError(f"tuning.runs: must have the labels of runs: {', '.join(self.runs)}")
        try:
            fusion_tuning.check_grid(self.method, self.labels, tuning.grid)
        except errors.UsageError as error:
            raise ValueError(f"tuning: {error}") from None
        return self

    @property
    def labels(self) -> list[str]:
        """The runs in the order in which they are taken: the recipe's for `zip`, where it matters."""
        return list(self.runs) if self.method == "zip" else sorted(self.runs)

    @property
    def fusion(self) -> Fusion:
        """How lists in the order of `labels` become one, not tuned."""
        weights = tuple(self.weights.get(label, 1.0) for label in self.labels)
        return Fusion(self.method, weights, self.missing_scores, self.constant, self.norm, self.depth)

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        yield from super().references()
        for path, name, mark in marked_references(self.tuning) if self.tuning else ():
            yield f"tuning.{path}", name, mark

    def identity(self) -> dict[str, object]:
        """Weights that are not given count as 1; the order of the runs counts where it matters."""
        weights = dict(zip(self.labels, self.fusion.weights, strict=True))
        identity: dict[str, Any] = {**super().identity(), "weights": weights}
        identity |= {"order": self.labels} if self.method == "zip" else {}
        return identity | ({"tuning": {**identity["tuning"], "runs": list(self.tuning.runs)}} if self.tuning else {})

    def list_length(self, recipe: RecipeView, runs: Mapping[str, str] | None = None) -> int:
        """The most documents of a query, of its own runs or of others that are fused in the same way."""
        lengths = [recipe.list_length(run) for run in (runs or self.runs).values()]
        return min(self.depth, sum(length if length is not None else self.depth for length in lengths))

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        if self.tuning is None:
            return
        longest = self.list_length(recipe, self.tuning.runs)
        if metrics.cut_below([self.tuning.metric], longest):
            advice = "raise depth and that of the runs, or take a smaller cutoff"
            yield f"tuning.metric: {self.tuning.metric} of lists of at most {longest} documents; {advice}"

    def make(self, context: "StageContext[Fuse]") -> Facts:
        """Reads the runs query by query and writes what they are together, best first.

        Facts: queries, how often a run lacks one, the numbers that were tuned; all that was tried is in `tuning.json`.
        """
        collection, labels, fusion = open_collection(context.inputs["dataset"]), self.labels, self.fusion
        query_ids, tuned = collection.queries(self.split).query_ids, dict[str, Any]()
        if self.tuning is not None:
            sources, excluded = context.inputs_of("tuning.runs"), collection.excluded()
            tuning, judged = self.tuning, collection.judged(self.tuning.split)
            whole = (runs.read_run(sources[label].folder / layout.RUN) for label in labels)
            tuned_on = [qrels.without_excluded(run, excluded) for run in whole]
            known = fusion_tuning.Development(labels, tuned_on, judged, tuning.metric, tuning.relevance_level)
            tried = fusion_tuning.tune(fusion, known, tuning.grid, query_ids, metrics.mean_of, context.progress)
            fusion = tried[0].fusion
            content = {"split": self.tuning.split, **fusion_tuning.to_json(tried, known)}
            replace_text(context.folder / layout.TUNING, json.dumps(content, indent=1, allow_nan=False) + "\n")
            numbers = {**fusion_tuning.numbers(fusion, labels), known.metric: tried[0].worth}
            tuned = {"tuned": numbers, "tried": len(tried)}
        facts, sources = Counter({"queries": len(query_ids), "depth": self.depth}), context.inputs_of("runs")
        paths = {label: sources[label].folder / layout.RUN for label in labels}

        def lists() -> Iterator[Sequence[types.RankedList]]:
            for _, hits in runs.lists_side_by_side(paths, query_ids):
                for label, ranked in hits.items():
                    facts[f"queries that {label} lacks"] += not ranked.doc_ids
                yield list(hits.values())

        def entries() -> Iterator[tuple[str, types.RankedList]]:
            with context.progress.task("fusing", len(query_ids), "queries") as task:
                for query_id, ranked in zip(query_ids, fusion.over(lists()), strict=True):
                    task.advance()
                    if ranked.doc_ids:
                        yield query_id, ranked

        runs.write_run(context.folder / layout.RUN, entries())
        return {name: count for name, count in facts.items() if count} | tuned
