"""Verb `fuse`: several runs of one split as one."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

from hardneg.fields import LATER, MEASURED, RELEVANT, MetricName, Name, Reference, marked_references
from hardneg.fusion.methods import Fusion, Method, Norm
from hardneg.records.errors import UsageError
from hardneg.records.layout import RUN, TUNING
from hardneg.records.types import RankedList
from hardneg.records.wording import suggestion
from hardneg.store.atomic_write import replace_text
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.stage_spec import RecipeView, Row, RunSpec, Sizes

if TYPE_CHECKING:
    from hardneg.formats.collection import StoredCollection


class Tuning(BaseModel):
    """Runs of other queries, by the labels of those that are fused, to choose weights or other numbers by.

    split: of those runs.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    runs: Annotated[dict[Name, Name], MEASURED] = Field(min_length=2)
    split: Name = "dev"
    metric: MetricName = Field("ndcg@10", description="The metric to tune on.")
    relevance_level: int = Field(1, gt=0, description=RELEVANT)
    grid: dict[Name, Annotated[tuple[FiniteFloat, ...], Field(min_length=1)]] = Field(
        default_factory=dict,
        description="Values to try, in every combination: of a run's weight, or `constant`; default: all weights in "
        "tenths that sum to 1.",
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
        description="zip, by turns, first run first; weighted-sum, of scores; reciprocal-rank; ranx's max, mnz, wsum.",
    )
    weights: Mapping[str, FiniteFloat] = Field(
        default_factory=dict, description="A run's weight, by its label; default 1."
    )
    missing_scores: Literal["lowest", "zero"] = Field(
        "lowest", description="Of weighted-sum: what a document scores in a run that lacks it, that run's lowest or 0."
    )
    constant: int = Field(Fusion.constant, ge=0, description="The constant of reciprocal-rank.")
    norm: Norm | None = Field(
        None, json_schema_extra=LATER, description="Of ranx's methods: min-max (the default), none, zmuv, ..."
    )
    tuning: Tuning | None = Field(None, json_schema_extra=LATER)
    split: Name = "test"
    depth: int = Field(Fusion.depth, gt=0, description="How many documents are kept for each query.")

    @model_validator(mode="after")
    def _complete(self) -> "Fuse":
        for label in self.weights:
            if label not in self.runs:
                raise ValueError(f"weights: no run is called {label!r}{suggestion(label, self.runs)}")
        if problems := self.fusion.problems():
            raise ValueError("; ".join(problems))
        if self.tuning:
            self._check(self.tuning)
        return self

    def _check(self, tuning: Tuning) -> None:
        from hardneg.fusion.tuning import check_grid

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

    def list_length(self, recipe: RecipeView) -> int:
        return self._fused_length(recipe, self.runs)

    def _fused_length(self, recipe: RecipeView, runs: Mapping[str, str]) -> int:
        lengths = [recipe.list_length(run) for run in runs.values()]
        return min(self.depth, sum(length if length is not None else self.depth for length in lengths))

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """A metric to tune by that is cut below the lists which are tuned on."""
        from hardneg.evaluation.metrics import cut_below

        if self.tuning is None:
            return
        longest = self._fused_length(recipe, self.tuning.runs)
        if cut_below([self.tuning.metric], longest):
            advice = "raise depth and that of the runs, or take a smaller cutoff"
            yield f"tuning.metric: {self.tuning.metric} of lists of at most {longest} documents; {advice}"

    def estimate(self, sizes: Sizes) -> Row:
        count = sizes.queries(self.split)
        return Row(count, "queries", count * self.depth * 20)

    def make(self, context: "StageContext[Fuse]") -> Facts:
        """Reads the runs query by query and writes what they are together, best first.

        Facts: queries, how often a run lacks one, the numbers that were tuned; all that was tried is in `tuning.json`.
        """
        from hardneg.formats.runs import write_run
        from hardneg.verbs.shared.inputs import open_collection

        collection = open_collection(context.inputs["dataset"])
        query_ids = collection.queries(self.split).query_ids
        fusion, tuned = _tuned(context, collection)
        facts = Counter({"queries": len(query_ids), "depth": self.depth})

        def entries() -> Iterator[tuple[str, RankedList]]:
            with context.progress.task("fusing", len(query_ids), "queries") as task:
                fused = fusion.over(_lists(context, query_ids, facts))
                for query_id, ranked in zip(query_ids, fused, strict=True):
                    task.advance()
                    if ranked.doc_ids:
                        yield query_id, ranked

        write_run(context.folder / RUN, entries())
        return {name: count for name, count in facts.items() if count} | tuned


def _lists(context: StageContext[Fuse], query_ids: Sequence[str], facts: Counter[str]) -> Iterator[list[RankedList]]:
    from hardneg.formats.runs import lists_side_by_side

    sources = context.inputs_of("runs")
    runs = {label: sources[label].folder / RUN for label in context.spec.labels}
    for _, hits in lists_side_by_side(runs, query_ids):
        for label, ranked in hits.items():
            facts[f"queries that {label} lacks"] += not ranked.doc_ids
        yield list(hits.values())


def _tuned(context: StageContext[Fuse], collection: "StoredCollection") -> tuple[Fusion, dict[str, Any]]:
    """The best fusion on the development queries, and what to tell of it; where nothing is tuned, the one given."""
    from hardneg.evaluation.metrics import mean_of
    from hardneg.formats.id_pairs import without_excluded
    from hardneg.formats.runs import read_run
    from hardneg.fusion.tuning import Development, check_development, numbers, to_json, tune

    spec, sources, excluded = context.spec, context.inputs_of("tuning.runs"), collection.excluded()
    if (settings := spec.tuning) is None:
        return spec.fusion, {}
    runs = [without_excluded(read_run(sources[label].folder / RUN), excluded) for label in spec.labels]
    known = Development(spec.labels, runs, collection.judged(settings.split), settings.metric, settings.relevance_level)
    check_development(known, collection.queries(spec.split).query_ids)
    mean = partial(mean_of, known.metric, known.qrels, known.relevance_level)
    tried = tune(spec.fusion, known, settings.grid, mean, context.progress)
    content = json.dumps({"split": settings.split, **to_json(tried, known)}, indent=1, allow_nan=False)
    replace_text(context.folder / TUNING, content + "\n")
    best = tried[0]
    return best.fusion, {"tuned": {**numbers(best.fusion, spec.labels), known.metric: best.worth}, "tried": len(tried)}
