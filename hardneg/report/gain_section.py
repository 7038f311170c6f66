"""Gains and losses by query against the baseline: how many queries, and how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from hardneg.evaluation.metrics_json import Measured
from hardneg.report.figure import COLOURS, fitted, graphic, plain_axes
from hardneg.report.numbers import signed
from hardneg.report.query_section import QUERIES, ByQuery
from hardneg.report.table import Cell, Graphic, Section, Table

_ROUNDING = 1e-9
_MOST_BARS = 200
_COLOURS = {"better": COLOURS[0], "equal": "#9aa4ad", "worse": COLOURS[1]}


@dataclass(frozen=True)
class QueryGains:
    """A system's differences from the baseline by query, largest gain first; those of rounding are 0."""

    system: str
    differences: Sequence[float]

    @classmethod
    def of(cls, ordered: ByQuery, system: str, baseline: str) -> "QueryGains":
        """Return the differences by the metric that orders the queries."""
        ours, theirs = (ordered.results[name][ordered.metric] for name in (system, baseline))
        exact = [ours.get(query_id, 0.0) - theirs.get(query_id, 0.0) for query_id in ordered.query_ids]
        return cls(system, sorted((x if abs(x) > _ROUNDING else 0.0 for x in exact), reverse=True))

    @property
    def gains(self) -> list[float]:
        """The differences above zero."""
        return [value for value in self.differences if value > 0]

    @property
    def losses(self) -> list[float]:
        """The differences below zero."""
        return [value for value in self.differences if value < 0]

    @property
    def equal(self) -> int:
        """The number of queries without a difference."""
        return len(self.differences) - len(self.gains) - len(self.losses)


def gains_section(measured: Measured, system: str = "") -> Section | None:
    """Return the sorted differences of the compared pair, and each system's counts; None for one system."""
    ordered = ByQuery.of(measured, system)
    if ordered.pair is None:
        return None
    first, baseline = ordered.pair
    systems = [name for name, scores in measured.results.items() if name != baseline and ordered.metric in scores]
    gains = [QueryGains.of(ordered, system, baseline) for system in systems]
    chosen = next(each for each in gains if each.system == first)
    graphics = [_curve(chosen, ordered.metric, baseline)]
    if len(gains) > 1:
        graphics.append(_shares(gains, baseline, ordered.metric))
    lead = f"By {ordered.metric}, against {baseline}."
    columns = ["system", "better", "equal", "worse", "mean gain", "mean loss", "difference"]
    rows = []
    for each in gains:
        sides = [signed(fmean(values)) if values else "–" for values in (each.gains, each.losses)]
        counts = [f"{count:,}" for count in (len(each.gains), each.equal, len(each.losses))]
        rows.append([Cell(text) for text in (each.system, *counts, *sides, signed(fmean(each.differences)))])
    return Section("Gains and losses by query", [Table(columns, rows)], lead=lead, graphics=graphics, see=QUERIES)


def _curve(each: QueryGains, metric: str, baseline: str) -> Graphic:
    """A bar for each query, or group of neighbours, from the largest gain to the largest loss."""
    queries = len(each.differences)
    size = -(-queries // _MOST_BARS)
    heights = [fmean(each.differences[start : start + size]) for start in range(0, queries, size)]
    counts = f"{len(each.gains):,} better, {each.equal:,} equal, {len(each.losses):,} worse"

    def draw(axes: Any) -> None:
        colours = [_COLOURS["better" if height > 0 else "worse"] for height in heights]
        axes.bar(range(len(heights)), heights, width=1.0, color=colours)
        axes.axhline(0, linewidth=0.8)
        axes.set_xticks([])
        plain_axes(axes, counts, "", "")

    title = f"Differences of {each.system} from {baseline} in {metric}, by query"
    grouped = f" Each bar is the mean of {size} neighbours." if size > 1 else ""
    caption = f"{each.system} minus {baseline} in {metric}, each of {queries:,} queries, largest gain first.{grouped}"
    return graphic("by-query", title, f"{counts}.", caption, draw)


def _shares(gains: Sequence[QueryGains], baseline: str, metric: str) -> Graphic:
    """A bar for each system, divided into queries that are better, equal and worse."""
    parts = {
        "better": [len(each.gains) for each in gains],
        "equal": [each.equal for each in gains],
        "worse": [len(each.losses) for each in gains],
    }

    def draw(axes: Any) -> None:
        begun = [0] * len(gains)
        for outcome, counts in parts.items():
            drawn = axes.barh(range(len(gains)), counts, left=begun, color=_COLOURS[outcome], height=0.6, label=outcome)
            axes.bar_label(drawn, [f"{count:,}" if count else "" for count in counts], label_type="center", fontsize=8)
            begun = [start + count for start, count in zip(begun, counts, strict=True)]
        axes.set_yticks(range(len(gains)), [fitted(each.system) for each in gains])
        axes.invert_yaxis()
        plain_axes(axes, "", "queries", "")

    text = "; ".join(f"{each.system} {len(each.gains)} : {each.equal} : {len(each.losses)}" for each in gains[:12])
    title = f"Queries better : equal : worse than {baseline}"
    caption = f"From the left: queries on which each is better, equal and worse than {baseline} by {metric}."
    return graphic("shares", title, f"{text}.", caption, draw, 0.8 + 0.35 * len(gains))
