"""Gains and losses by query against the baseline: how many queries, and how much."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean

from hardneg.evaluation.metrics_json import Measured
from hardneg.report.axis import Axis, axis, mark_of
from hardneg.report.numbers import signed
from hardneg.report.query_section import QUERIES, ByQuery
from hardneg.report.svg import Graphic, box, drawing, fitted, line, words
from hardneg.report.table import Cell, Section, Table

_ROUNDING = 1e-9
_MOST_BARS = 400
_HEIGHT, _TOP = 190.0, 22.0
_ENDS = (9.0, 100.0)
_ROW, _BAR = 38.0, 14.0


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
        caption = (
            f"From the left: queries on which each is better, equal and worse than {baseline} by {ordered.metric}."
        )
        graphics.append(Graphic(_shares(gains, baseline), caption))
    lead = f"By {ordered.metric}, against {baseline}."
    columns = ["system", "better", "equal", "worse", "mean gain", "mean loss", "difference"]
    rows = []
    for each in gains:
        sides = [signed(fmean(values)) if values else "–" for values in (each.gains, each.losses)]
        counts = [f"{count:,}" for count in (len(each.gains), each.equal, len(each.losses))]
        rows.append([Cell(text) for text in (each.system, *counts, *sides, signed(fmean(each.differences)))])
    return Section("Gains and losses by query", [Table(columns, rows)], lead=lead, graphics=graphics, see=QUERIES)


def _group(queries: int) -> int:
    """The number of queries of a bar."""
    return -(-queries // _MOST_BARS)


def _curve(each: QueryGains, metric: str, baseline: str) -> Graphic:
    """A bar for each query, or group of neighbours, from the largest gain to the largest loss."""
    upright = axis([0.0, *each.differences], (_HEIGHT - 12.0, _TOP))
    parts: list[str] = []
    for value in upright.marks:
        parts.append(line((_ENDS[0], _ENDS[1]), (upright.at(value),) * 2, "grid"))
        parts.append(words(0, upright.at(value) + 4, mark_of(value), look="mark"))
    parts += _bars(each.differences, upright)
    parts.append(line((_ENDS[0], _ENDS[1]), (upright.at(0.0),) * 2, "rule"))
    parts.append(words(_ENDS[0], 13, f"{len(each.gains):,} better", look="better"))
    middle = (_ENDS[0] + _ENDS[1]) / 2
    parts.append(words(middle, 13, f"{each.equal:,} equal", "middle", "mark"))
    parts.append(words(100, 13, f"{len(each.losses):,} worse", "end", "worse"))
    title = f"Differences of {each.system} from {baseline} in {metric}, by query"
    text = f"{len(each.gains)} queries better, {each.equal} equal, {len(each.losses)} worse."
    queries = len(each.differences)
    grouped = f" Each bar is the mean of {_group(queries)} neighbours." if _group(queries) > 1 else ""
    caption = f"{each.system} minus {baseline} in {metric}, each of {queries:,} queries, largest gain first.{grouped}"
    return Graphic(drawing("by-query", title, text, _HEIGHT, parts), caption)


def _bars(differences: Sequence[float], upright: Axis) -> Iterator[str]:
    """Bars side by side; neighbours of one height are one bar."""
    size, zero, begun = _group(len(differences)), upright.at(0.0), 0
    groups = [differences[start : start + size] for start in range(0, len(differences), size)]
    wide = (_ENDS[1] - _ENDS[0]) / len(differences)
    for end, alike in groupby(groups, key=lambda group: round(upright.at(fmean(group)), 1)):
        ended = begun + sum(map(len, alike))
        x = (_ENDS[0] + wide * begun, _ENDS[0] + wide * ended)
        if height := round(abs(end - zero), 1):
            yield box(x, min(end, zero), height, "better" if end < zero else "worse")
        begun = ended


def _shares(gains: Sequence[QueryGains], baseline: str) -> str:
    """A bar for each system, divided into queries that are better, equal and worse."""
    parts: list[str] = []
    for row, each in enumerate(gains):
        top = 4 + _ROW * row
        counts = {"better": len(each.gains), "equal": each.equal, "worse": len(each.losses)}
        parts.append(words(0, top + 12, fitted(each.system), look="name"))
        parts.append(words(100, top + 12, " : ".join(f"{count:,}" for count in counts.values()), "end", "value"))
        begun, total = 0, max(1, sum(counts.values()))
        for outcome, count in counts.items():
            if count:
                parts.append(box((100 * begun / total, 100 * (begun + count) / total), top + 18, _BAR, outcome))
            begun += count
    text = "; ".join(f"{each.system} {len(each.gains)} : {each.equal} : {len(each.losses)}" for each in gains[:12])
    title = f"Queries better : equal : worse than {baseline}"
    return drawing("shares", title, f"{text}.", 4 + _ROW * len(gains), parts)
