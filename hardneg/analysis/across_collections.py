"""Systems measured on several collections: a column for each, their mean, and tests of the mean."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from pydantic import Field

from hardneg.analysis.base import Analysis, Option
from hardneg.analysis.inputs import AnalysisInputs
from hardneg.evaluation.intervals import group_index
from hardneg.fields import MetricName, Name, Reference
from hardneg.records.errors import UsageError
from hardneg.records.wording import suggestion
from hardneg.report.figure import bar_width, bars, figure, plain_axes
from hardneg.report.numbers import bounds, number, p_value, signed
from hardneg.report.table import Table

if TYPE_CHECKING:
    from hardneg.evaluation.metrics_json import Measured
    from hardneg.evaluation.variance import SeedTable


class AcrossCollections(Analysis):
    """Compare systems on several collections: a column for each collection, and the mean of all.

    Example: hardneg analyze across-collections nq/metrics.json scifact/metrics.json --baseline BM25
    """

    name = "across-collections"
    title = "all collections"
    explained = (
        "Each collection counts alike in the mean. Tests are of the mean, over queries, which are drawn within each "
        "collection, and seeds, each one draw for all collections (quasi-F, as in the section on seeds). Nothing is "
        "said of other collections."
    )

    evaluations: Annotated[
        dict[Name, Name], Reference(("metrics",)), Option(metavar="METRICS.JSON...", argument=True)
    ] = Field(min_length=2, description="Evaluations of the same systems, each on one collection.")
    metric: MetricName | None = Field(None, description="By default the first one that was evaluated.")
    baseline: Name | None = Field(None, description="The system that others are tested against; the first by default.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """By system the means by collection, their mean, its deviation over seeds; then the tests of it.

        Raises:
            UsageError: no system was measured on all collections by the metric, or the baseline was not; or a system
                has other seeds on one collection than on another.
        """
        evaluations = {label: inputs.measured(f"evaluations.{label}") for label in self.evaluations}
        first = next(iter(evaluations.values())).results
        metric = self.metric or next(name for scores in first.values() for name in scores)
        everywhere = [
            system for system in first if all(metric in each.results.get(system, ()) for each in evaluations.values())
        ]
        if not everywhere:
            raise UsageError(f"{inputs.location('evaluations')}: no system has {metric} on all collections")
        baseline = self.baseline or everywhere[0]
        if baseline not in everywhere:
            known = f"{suggestion(baseline, everywhere)}; there are: {', '.join(everywhere)}"
            raise UsageError(f"{inputs.location('baseline')}: {baseline!r} has no {metric} on all collections{known}")
        for system in everywhere:
            if len({tuple(sorted(each.by_seed.get(system, ()))) for each in evaluations.values()}) > 1:
                reason = f"{system!r} has other seeds on one collection than on another"
                raise UsageError(f"{inputs.location('evaluations')}: {reason}: evaluate the same trainings on each")
        tables = {system: _tables(evaluations, system, metric) for system in everywhere}
        others = [system for system in everywhere if system != baseline]
        systems = {}
        for system, by_seed in tables.items():
            means = [float(table.mean()) for table in by_seed]
            drawn = np.mean([table.mean(axis=1) for table in by_seed], axis=0)
            deviation = float(drawn.std(ddof=1)) if len(drawn) > 1 else None
            by_collection = dict(zip(evaluations, means, strict=True))
            systems[system] = {"means": by_collection, "mean": float(np.mean(means)), "deviation": deviation}
        return {
            "metric": metric,
            "systems": systems,
            "baseline": baseline,
            "tests": _tests(evaluations, tables, baseline, others, metric),
            "left out": sorted({*chain(*(each.results for each in evaluations.values()))} - {*everywhere}),
        }

    def explain(self, results: Any) -> str:
        """How to read it, and which systems are left out."""
        sentences = [self.explained]
        if left_out := results.get("left out"):
            sentences.append(f"Left out, as not every collection has their {results['metric']}: {', '.join(left_out)}.")
        return " ".join(sentences)

    def tables(self, results: Any) -> Sequence[Table]:
        """The means, and the tests where there is more than one system."""
        return [self.table(results), *([_tests_table(results)] if results["tests"] else [])]

    def table(self, results: Any) -> Table:
        """One row a system."""
        rows = [
            [
                system,
                *(number(each["means"][name]) for name in self.evaluations),
                number(each["mean"]),
                "–" if each["deviation"] is None else number(each["deviation"]),
            ]
            for system, each in results["systems"].items()
        ]
        return Table([results["metric"], *self.evaluations, "mean", "deviation over seeds"], rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """One bar a system: the mean of all collections."""
        means = {system: each["mean"] for system, each in results["systems"].items()}
        with figure(paths, 1, width=bar_width(len(means))) as (axes,):
            bars(axes, means, {system: number(mean) for system, mean in means.items()})
            plain_axes(axes, f"mean of {len(self.evaluations)} collections", "", results["metric"])


def _tables(evaluations: "Mapping[str, Measured]", system: str, metric: str) -> "list[SeedTable]":
    """Scores [seeds, queries] of each collection, queries in one order."""
    tables = []
    for measured in evaluations.values():
        seeds = measured.by_seed.get(system) or {0: measured.results[system]}
        order = sorted(measured.results[system][metric])
        rows = [[scores[metric][query_id] for query_id in order] for _, scores in sorted(seeds.items())]
        tables.append(np.array(rows, np.float64))
    return tables


def _tests(
    evaluations: "Mapping[str, Measured]",
    tables: "Mapping[str, Sequence[SeedTable]]",
    baseline: str,
    others: Sequence[str],
    metric: str,
) -> list[dict[str, Any]]:
    """Each system against the baseline, Holm's correction over all."""
    from hardneg.evaluation.significance import holm
    from hardneg.evaluation.variance import spread_over_collections

    groups = [
        group_index(sorted(measured.results[baseline][metric]), measured.query_groups)
        for measured in evaluations.values()
    ]
    spreads = {}
    for system in others:
        pairs = list(zip(tables[system], tables[baseline], strict=True))
        shared = any(
            test.shared and {test.system, test.baseline} == {system, baseline}
            for measured in evaluations.values()
            for test in measured.over_seeds
        )
        spreads[system] = spread_over_collections(
            [[one - other] if shared else [one, other] for one, other in pairs], groups
        )
    corrected = holm([each.p for each in spreads.values()])
    return [
        {
            "system": system,
            "difference": each.mean,
            "interval": [each.interval.low, each.interval.high] if each.interval else None,
            "p": each.p,
            "holm": p,
            "seed_p": each.seed_p,
        }
        for (system, each), p in zip(spreads.items(), corrected, strict=True)
    ]


def _tests_table(results: Any) -> Table:
    from hardneg.evaluation.intervals import Interval

    rows = [
        [
            f"{test['system']} − {results['baseline']}",
            signed(test["difference"]),
            bounds(Interval(*test["interval"]), "+.3f") if test["interval"] else "–",
            *(p_value(test[name]) for name in ("p", "holm", "seed_p")),
        ]
        for test in results["tests"]
    ]
    return Table(["mean of collections", "difference", "95 % interval", "t-test p", "Holm", "p by seeds alone"], rows)
