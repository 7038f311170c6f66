"""Analyses of evaluations: bars with intervals, two-way tables, and comparisons over several collections."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

import hardneg.plugin as hn

_FIRST = "The metric; by default, the first evaluated one."
Evaluation = Annotated[
    hn.fields.Name, hn.fields.Reference(("metrics",)), hn.fields.Option(metavar="METRICS.JSON", argument=True)
]


def estimates_of(inputs: hn.AnalysisInputs, wanted: str | None) -> tuple[str, Mapping[str, Any]]:
    """Return the metric's name (`wanted`, or else the first one evaluated) and each system's estimate, if it has one.

    Raises:
        UsageError: the metric was not evaluated.
    """
    systems = {label: hn.estimates(scores) for label, scores in inputs.results("evaluation").items()}
    metrics = list(dict.fromkeys(name for measured in systems.values() for name in measured))
    metric = wanted or metrics[0]
    if metric not in metrics:
        message = (
            f"{metric!r} was not evaluated{hn.records.suggestion(metric, metrics)}; available: {', '.join(metrics)}"
        )
        raise hn.errors.UsageError(f"{inputs.location('metric')}: {message}")
    return metric, {label: measured[metric] for label, measured in systems.items() if metric in measured}


class Ablation(hn.Analysis):
    """Draw the systems of an evaluation as bars of one metric, with 95% intervals.

    Example: hardneg analyze ablation runs/adore-ablation-passage/metrics.json --plot ablation.svg
    """

    name = "ablation"
    title = "ablation"
    paper = "STAR/ADORE, Figure 5"

    evaluation: Evaluation = Field(description="The metrics.json of a recipe.")
    metric: hn.fields.Name | None = Field(None, description=_FIRST)

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return the metric, and the mean and interval (if any) of each system."""
        metric, systems = estimates_of(inputs, self.metric)
        ends = {label: each.interval and [each.interval.low, each.interval.high] for label, each in systems.items()}
        return {"metric": metric, "means": {label: each.mean for label, each in systems.items()}, "intervals": ends}

    def table(self, results: Any) -> hn.Table:
        rows = [[label, f"{mean:.4f}"] for label, mean in results["means"].items()]
        return hn.Table(("system", results["metric"]), rows)

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw a bar per system, from zero to its mean over queries, with its 95% interval, in the order given."""
        means = results["means"]
        ends = {label: results["intervals"].get(label) or (mean, mean) for label, mean in means.items()}
        errors = [[abs(means[label] - each[side]) for label, each in ends.items()] for side in (0, 1)]
        with hn.figures.figure(paths, 1, width=hn.figures.bar_width(len(means))) as (axes,):
            style = {"color": hn.figures.COLOURS[0], "width": 0.65, "capsize": 3}
            drawn = axes.bar(list(means), list(means.values()), yerr=errors, **style)
            axes.bar_label(drawn, [f"{mean:.3f}" for mean in means.values()], label_type="center", color="white")
            axes.tick_params("x", rotation=20)
            hn.figures.plain_axes(axes, f"{results['metric']} with 95% intervals", "", results["metric"])


class Matrix(hn.Analysis):
    """Show the systems of an evaluation in a two-way table, in which cells may be missing.

    Example: hardneg analyze matrix runs/adore-pq/metrics.json --cell "24:flat=24 → flat" --cell "flat:flat=flat → flat"
    """

    name = "matrix"
    title = "matrix"
    paper = "STAR/ADORE, Table 3"

    evaluation: Evaluation = Field(description="The metrics.json of a recipe.")
    rows: Annotated[
        dict[hn.fields.Name, dict[hn.fields.Name, hn.fields.Name]],
        hn.fields.Option("cell", metavar="ROW:COLUMN=SYSTEM"),
    ] = Field(min_length=1, description="The system to show in a cell.")
    metric: hn.fields.Name | None = Field(None, description=_FIRST)
    axes: Annotated[tuple[str, str], hn.fields.Option("axis")] = Field(
        ("", ""), description="The names of the row and column axes."
    )
    figure: Annotated[Literal["heatmap", "lines"], hn.fields.Option("form")] = Field(
        "heatmap", description="Whether to draw a heatmap or lines."
    )

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return `metric`, `axes` and the means of the systems. Raises UsageError if a system was not evaluated.

        `rows` and `columns`: labels in order of appearance. `values`: a list of means per row, with a value per column,
        None for an empty cell.

        Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 3.
        """
        metric, systems = estimates_of(inputs, self.metric)
        columns = list(dict.fromkeys(column for named in self.rows.values() for column in named))
        for row, named in self.rows.items():
            for column, label in named.items():
                if label not in systems:
                    lacks = f"system {label!r} was not evaluated{hn.records.suggestion(label, systems)}"
                    raise hn.errors.UsageError(f"{inputs.location('rows')}.{row}.{column}: {lacks}")
        rows = [
            [systems[named[column]].mean if column in named else None for column in columns]
            for named in self.rows.values()
        ]
        facts = {"rows": list(self.rows), "columns": columns, "values": rows}
        return {"metric": metric, **facts, "axes": list(self.axes)}

    def table(self, results: Any) -> hn.Table:
        rows = [
            [row, *("–" if value is None else f"{value:.4f}" for value in values)]
            for row, values in zip(results["rows"], results["values"], strict=True)
        ]
        return hn.Table((results["metric"], *results["columns"]), rows)

    def explain(self, results: Any) -> str:
        down, across = results["axes"]
        return f"{results['metric']}; rows: {down}; columns: {across}." if down and across else ""

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """Draw a heatmap with numbers, or a line per row over the columns."""
        rows, columns, metric = results["rows"], results["columns"], results["metric"]
        down, across = results["axes"]
        title = f"{metric}: {down} by {across}" if down and across else metric
        height = max(3.2, 1.2 + 0.4 * len(rows)) if self.figure == "heatmap" else 3.2
        with hn.figures.figure(paths, 1, height, max(4.6, 1.6 + 0.8 * len(columns))) as (axes,):
            if self.figure == "lines":
                series = {
                    row: [(float(at), value) for at, value in enumerate(values) if value is not None]
                    for row, values in zip(rows, results["values"], strict=True)
                }
                hn.figures.lines(axes, series)
                hn.figures.plain_axes(axes, title, across, metric)
            else:
                _heatmap(axes, rows, results["values"])
                hn.figures.plain_axes(axes, title, across, down)
                axes.grid(visible=False)
            axes.set_xticks(range(len(columns)), columns, fontsize=8)


def _heatmap(axes: Any, rows: Sequence[str], values: Sequence[Sequence[float | None]]) -> None:
    known = [value for row in values for value in row if value is not None]
    low, high = min(known, default=0.0), max(known, default=1.0)
    shades = [[float("nan") if value is None else value for value in row] for row in values]
    axes.imshow(shades, cmap="Blues", vmin=low - (high - low) / 3, vmax=high, aspect="auto")
    for y, row in enumerate(values):
        for x, value in enumerate(row):
            dark = value is not None and value > low + (high - low) * 0.5
            words = "–" if value is None else f"{value:.4f}"
            axes.text(x, y, words, ha="center", va="center", fontsize=9, color="white" if dark else "#222222")
    axes.set_yticks(range(len(rows)), rows, fontsize=8)


class AcrossCollections(hn.Analysis):
    """Compare systems on several collections, with a column for each collection and one for the mean.

    Example: hardneg analyze across-collections nq/metrics.json scifact/metrics.json --baseline BM25
    """

    name = "across-collections"
    title = "all collections"
    explained = (
        "Collections have equal weights in the mean. Tests of the mean are over queries, drawn within each "
        "collection, and over seeds, shared by all collections (quasi-F, as in the section on seeds). They do not "
        "generalize to other collections."
    )
    drawn = slice(-2, -1)

    evaluations: Annotated[
        dict[hn.fields.Name, hn.fields.Name],
        hn.fields.Reference(("metrics",)),
        hn.fields.Option(metavar="METRICS.JSON...", argument=True),
    ] = Field(min_length=2, description="Evaluations of the same systems, each on one collection.")
    metric: hn.fields.MetricName | None = Field(None, description=_FIRST)
    baseline: hn.fields.Name | None = Field(
        None, description="The system to test others against; by default, the first."
    )

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return each system's mean by collection, the mean of these with its deviation over seeds, and the tests.

        Raises:
            UsageError: no system has the metric on every collection, or the baseline does not; or the seeds of a
                system differ between collections.
        """
        evaluations = {label: inputs.measured(f"evaluations.{label}") for label in self.evaluations}
        first = next(iter(evaluations.values())).results
        metric = self.metric or next(name for scores in first.values() for name in scores)
        everywhere = [
            name for name in first if all(metric in each.results.get(name, ()) for each in evaluations.values())
        ]
        place = inputs.location("evaluations")
        if not everywhere:
            raise hn.errors.UsageError(f"{place}: no system has {metric} on every collection; choose another metric")
        baseline = self.baseline or everywhere[0]
        if baseline not in everywhere:
            known = f"{hn.records.suggestion(baseline, everywhere)}; available: {', '.join(everywhere)}"
            raise hn.errors.UsageError(
                f"{inputs.location('baseline')}: {baseline!r} does not have {metric} on every collection{known}"
            )
        tables: dict[str, list[NDArray[np.float64]]] = {name: [] for name in everywhere}  # [seeds, queries] of each
        for system, rows in tables.items():
            for measured in evaluations.values():
                seeds = measured.by_seed.get(system) or {0: measured.results[system]}
                order = sorted(measured.results[system][metric])
                scores = [[seeds[seed][metric][query_id] for query_id in order] for seed in sorted(seeds)]
                rows.append(np.array(scores, np.float64))
            if len({tuple(sorted(each.by_seed.get(system, ()))) for each in evaluations.values()}) > 1:
                reason = f"{system!r} has different seeds on different collections"
                raise hn.errors.UsageError(f"{place}: {reason}; evaluate the same models on each")
        systems = {}
        for system, rows in tables.items():
            means = {label: float(row.mean()) for label, row in zip(evaluations, rows, strict=True)}
            drawn = np.mean([row.mean(axis=1) for row in rows], axis=0)
            deviation = float(drawn.std(ddof=1)) if len(drawn) > 1 else None
            systems[system] = {"means": means, "mean": float(np.mean([*means.values()])), "deviation": deviation}
        return {
            "metric": metric,
            "systems": systems,
            "baseline": baseline,
            "tests": _tests(list(evaluations.values()), tables, baseline, metric),
            "left out": sorted({name for each in evaluations.values() for name in each.results} - {*everywhere}),
        }

    def explain(self, results: Any) -> str:
        left_out = ", ".join(results.get("left out") or ())
        more = f" Left out, as {results['metric']} is missing on some collections: {left_out}." if left_out else ""
        return self.explained + more

    def tables(self, results: Any) -> Sequence[hn.Table]:
        """Return the table of means and, if there are several systems, the table of tests."""
        rows = [
            [
                f"{test['system']} − {results['baseline']}",
                hn.tables.signed(test["difference"]),
                "[{:+.3f}, {:+.3f}]".format(*test["interval"]).replace("-", "−") if test["interval"] else "–",
                *(hn.tables.p_value(test[name]) for name in ("p", "holm", "seed_p")),
            ]
            for test in results["tests"]
        ]
        head = ["mean of collections", "difference", "95% interval", "t-test p", "Holm", "p by seeds alone"]
        return [self.table(results), *([hn.Table(head, rows)] if rows else [])]

    def table(self, results: Any) -> hn.Table:
        rows = [
            [
                system,
                *(hn.tables.number(each["means"][name]) for name in self.evaluations),
                hn.tables.number(each["mean"]),
                "–" if each["deviation"] is None else hn.tables.number(each["deviation"]),
            ]
            for system, each in results["systems"].items()
        ]
        return hn.Table([results["metric"], *self.evaluations, "mean", "deviation over seeds"], rows)


def _tests(
    evaluations: Sequence[hn.metrics_files.Measured],
    tables: Mapping[str, Sequence[NDArray[np.float64]]],
    baseline: str,
    metric: str,
) -> list[dict[str, Any]]:
    """Test each system against the baseline, Holm-corrected; tables: scores [seeds, queries] of each collection."""

    queries = [(sorted(each.results[baseline][metric]), each.query_groups) for each in evaluations]
    tested = [test for measured in evaluations for test in measured.over_seeds if test.shared]
    results: list[dict[str, Any]] = []
    for system in (name for name in tables if name != baseline):
        shared = any({test.system, test.baseline} == {system, baseline} for test in tested)
        pairs = zip(tables[system], tables[baseline], strict=True)
        spread = spread_over_collections([[one - other] if shared else [one, other] for one, other in pairs], queries)
        interval = [spread.interval.low, spread.interval.high] if spread.interval else None
        facts = {"system": system, "difference": spread.mean, "interval": interval}
        results.append({**facts, "p": spread.p, "seed_p": spread.seed_p})
    for test, p in zip(results, hn.significance.holm([test["p"] for test in results]), strict=True):
        test["holm"] = p
    return results


def spread_over_collections(
    collections: Sequence[Sequence[NDArray[np.float64]]],
    queries: Sequence[tuple[Sequence[str], Mapping[str, str] | None]] | None = None,
) -> Any:
    """Return the `Spread` of a mean over collections that have equal weights and different queries.

    Queries are drawn within each collection. A seed is one draw for all collections, because each model is measured on
    all of them, so the seed component comes from means over collections. Collections are not sampled, so results do not
    generalize to others.

    collections: for each, scores [seeds, queries] of both systems, or one array of their differences. queries: for each
    collection, the query ids in column order, and their groups or None.
    """
    from hardneg.plugin import intervals

    def mean_of(components: Sequence[Any]) -> Any:
        variance = sum(each.variance for each in components)
        freedom = intervals.satterthwaite(variance, components)
        return intervals.Component(variance / len(components) ** 2, freedom)

    groups = [intervals.group_index(*each) for each in queries] if queries else [None] * len(collections)
    parts = [intervals.spread(tables, chosen) for tables, chosen in zip(collections, groups, strict=True)]
    several = [at for at, table in enumerate(collections[0]) if len(table) > 1]
    by_seed = [np.mean([tables[at].mean(axis=1) for tables in collections], axis=0) for at in several]
    return intervals.Spread(
        float(np.mean([part.mean for part in parts])),
        mean_of([part.query for part in parts]),
        tuple(intervals.mean_variance(values) for values in by_seed),
        tuple(mean_of([part.rest[at] for part in parts]) for at in range(len(several))),
    )
