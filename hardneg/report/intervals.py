"""The main comparison as figures: each system's mean with its interval, and its difference from the baseline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hardneg.evaluation.intervals import Interval, interval_of
from hardneg.evaluation.metrics import means
from hardneg.evaluation.seeds import averaged
from hardneg.report.axis import Axis, axis, mark_of
from hardneg.report.content import ReportContent, Test, p_of
from hardneg.report.numbers import bounds, equation, number, p_value, signed, within
from hardneg.report.seed_section import outcome
from hardneg.report.svg import Graphic, box, dot, drawing, fitted, line, words
from hardneg.report.table import Cell, Section, Table

ROW = 38
"""Pixels of a system: its name and figure, and its interval below them."""
_TOP, _FOOT = 4, 26
_STRIP = (18, 14)  # pixels from the top of a row, and its height
_ENDS = (1.0, 99.0)
_DESCRIBED = 12
_SEEDS = "Thick: over queries; thin: over queries and seeds; short lines: the mean of each seed."


@dataclass(frozen=True)
class Spot:
    """One system's row in a figure.

    value: None if unknown. narrow: its 95 % interval over queries; wide: over queries and seeds, None with one seed.
    look: the class of the dot. single: the value of each seed. more: shown on wide pages.
    """

    name: str
    value: float | None
    narrow: Interval | None = None
    wide: Interval | None = None
    look: str = "plain"
    single: Sequence[float] = ()
    shown: str = "–"
    more: str = ""

    @property
    def ends(self) -> Iterator[float]:
        """All values on the axis."""
        yield from (() if self.value is None else (self.value,))
        yield from (end for each in (self.narrow, self.wide) if each for end in (each.low, each.high))
        yield from self.single


def comparison_section(report: ReportContent) -> Section | None:
    """Return means and differences by the first metric; None with fewer than two systems."""
    if not report.metrics or sum(report.metrics[0] in values for values in report.systems.values()) < 2:
        return None
    metric, tests, baseline = report.metrics[0], report.main_tests, report.baseline
    graphics = [means_graphic(report, metric)]
    if tests:
        differences = list(_differences(report, tests, baseline))
        caption = f"Difference in {metric} from {baseline}, paired by query, and its 95 % interval. "
        caption += f"Filled: p < {report.level:g} after Holm's correction; hollow: no difference shown."
        caption += " Thick: over queries; thin: over queries and seeds." if report.over_seeds else ""
        title = f"Difference in {metric} from {baseline}"
        graphics.append(Graphic(_drawn("differences", title, differences, 0.0), caption))
    return Section("Main comparison", [_table(report)], graphics=graphics, folded=True, lines=report.notes)


def means_graphic(report: ReportContent, metric: str, name: str = "means") -> Graphic:
    """Return each system's mean with its interval; `name` is unique in the page."""
    spots, baseline = list(_means(report, metric)), report.baseline
    caption = f"Mean {metric} and its 95 % interval.{' Dashed: the baseline.' if baseline else ''}"
    mark = next((spot.value for spot in spots if spot.name == baseline), None)
    drawn = _drawn(name, f"Mean {metric} by system", spots, mark)
    return Graphic(drawn, f"{caption} {_SEEDS}" if report.by_seed else caption)


def _table(report: ReportContent) -> Table:
    """The figures as a table, a row for each system."""
    metric, tests = report.metrics[0], report.main_tests
    baseline = report.baseline
    rows = []
    for name, values in report.systems.items():
        if metric in values:
            mean = Cell(number(values[metric].mean), note=bounds(values[metric].interval))
            rows.append([Cell(name), mean, *(_tested(report, name) if tests else [])])
    against = [f"difference from {baseline}", "corrected p", "TOST p", "outcome"] if tests else []
    return Table(["system", metric, *against], rows)


def _tested(report: ReportContent, name: str) -> list[Cell]:
    if (test := report.main_tests.get(name)) is None:
        return [Cell("–"), Cell("–"), Cell("–"), Cell("baseline" if name == report.baseline else "–")]
    difference = Cell(signed(test.difference), note=bounds(within(test.interval, -1.0), "+.3f"))
    p_values = [Cell(p_value(p)) for p in (p_of(test), test.equivalence_holm)]
    return [difference, *p_values, Cell(outcome(test, report.level))]


def _means(report: ReportContent, metric: str) -> Iterator[Spot]:
    baselines = {each.baseline for each in report.main_tests.values()}
    for name, values in report.systems.items():
        if metric not in values:
            continue
        mean, seeds = values[metric], list(report.by_seed.get(name, {}).values())
        narrow = within(interval_of(averaged(seeds)[metric], report.query_groups), 0.0) if seeds else mean.interval
        yield Spot(
            name,
            mean.mean,
            narrow,
            mean.interval if seeds else None,
            "base" if name in baselines else "plain",
            [means(scores)[metric] for scores in seeds],
            number(mean.mean),
        )


def _differences(report: ReportContent, tests: Mapping[str, Test], baseline: str) -> Iterator[Spot]:
    """The systems in the report's order, the baseline at 0."""
    metric = report.metrics[0]
    by_query = {c.system: c for c in report.comparisons if (c.baseline, c.metric) == (baseline, metric)}
    for name, values in report.systems.items():
        if name == baseline:
            yield Spot(name, 0.0, look="base", shown="baseline")
        elif test := tests.get(name):
            look = outcome(test, report.level)
            look = look if look in ("better", "worse") else "same"
            narrow = within(by_query[name].interval, -1.0)
            wide = None if test is by_query[name] else within(test.interval, -1.0)
            shown, more = signed(test.difference), equation("p", p_of(test))
            yield Spot(name, test.difference, narrow, wide, look, shown=shown, more=more)
        elif metric in values:
            yield Spot(name, None)


def _drawn(name: str, title: str, spots: Sequence[Spot], mark: float | None) -> str:
    """A row for each system on one axis; mark: the value of the dashed line."""
    along = axis([end for spot in spots for end in spot.ends], _ENDS)
    parts = [part for row, spot in enumerate(spots) for part in _row(spot, _TOP + ROW * row, along, mark)]
    foot = _TOP + ROW * len(spots)
    parts += [words(along.at(value), foot + 16, mark_of(value), "middle", "mark") for value in along.marks]
    texts = [f"{spot.name} {spot.shown}{_ends(spot.wide or spot.narrow)}" for spot in spots[:_DESCRIBED]]
    rest = f"; {len(spots) - _DESCRIBED} more in the tables" if len(spots) > _DESCRIBED else ""
    return drawing(name, title, f"{'; '.join(texts)}{rest}.", foot + _FOOT, parts)


def _row(spot: Spot, top: float, along: Axis, mark: float | None) -> Iterator[str]:
    strip, middle = top + _STRIP[0], top + _STRIP[0] + _STRIP[1] / 2
    ends = (strip, strip + _STRIP[1])
    yield words(0, top + 12, fitted(spot.name), look="name base" if spot.look == "base" else "name")
    yield words(100, top + 12, spot.shown, "end", "value", spot.more)
    yield box((0, 100), strip, _STRIP[1], "strip")
    yield from (line((along.at(value),) * 2, ends, "grid") for value in along.marks)
    if mark is not None:
        yield line((along.at(mark),) * 2, ends, "zero")
    for interval, width in ((spot.wide, "wide"), (spot.narrow, "narrow")):
        if interval:
            thin = width if spot.wide else "only"
            low, high = along.at(interval.low), along.at(interval.high)
            yield line((low, high), (middle, middle), f"{thin} {spot.look}")
            caps = (low, high) if width == "wide" else ()
            yield from (line((end, end), (middle - 4, middle + 4), f"wide {spot.look}") for end in caps)
    yield from (line((along.at(value),) * 2, (middle - 5, middle + 5), f"seed {spot.look}") for value in spot.single)
    if spot.value is not None:
        yield dot(along.at(spot.value), middle, f"dot {spot.look}")


def _ends(interval: Interval | None) -> str:
    return f" ({interval.low:.3f} to {interval.high:.3f})".replace("-", "−") if interval else ""
