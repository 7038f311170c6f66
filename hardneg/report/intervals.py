"""The main comparison as figures: each system's mean with its interval, and its difference from the baseline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardneg.evaluation.intervals import Interval, interval_of
from hardneg.evaluation.metrics import averaged, means
from hardneg.report.content import ReportContent, Test, outcome, p_of
from hardneg.report.figure import COLOURS, fitted, graphic, plain_axes
from hardneg.report.table import Cell, Graphic, Section, Table, bounds, equation, number, p_value, signed, within

_DESCRIBED = 12
_COLOURS = {"plain": COLOURS[0], "better": COLOURS[0], "worse": COLOURS[1], "same": "#808890", "base": "#808890"}
_SEEDS = "Thick: over queries; thin: over queries and seeds; short lines: the mean of each seed."


@dataclass(frozen=True)
class Spot:
    """One system's row in a figure.

    value: None if unknown. narrow: its 95 % interval over queries; wide: over queries and seeds, None with one seed.
    look: of the dot, one of `_COLOURS`. single: the value of each seed. shown, more: stand beside it.
    """

    name: str
    value: float | None
    narrow: Interval | None = None
    wide: Interval | None = None
    look: str = "plain"
    single: Sequence[float] = ()
    shown: str = "–"
    more: str = ""


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
        graphics.append(_drawn(("differences", title), differences, 0.0, caption))
    return Section("Main comparison", [_table(report)], graphics=graphics, folded=True, lines=report.notes)


def means_graphic(report: ReportContent, metric: str) -> Graphic:
    """Return each system's mean with its interval."""
    spots, baseline = list(_means(report, metric)), report.baseline
    caption = f"Mean {metric} and its 95 % interval.{' Dashed: the baseline.' if baseline else ''}"
    mark = next((spot.value for spot in spots if spot.name == baseline), None)
    caption = f"{caption} {_SEEDS}" if report.by_seed else caption
    return _drawn(("means", f"Mean {metric} by system"), spots, mark, caption)


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


def _drawn(title: tuple[str, str], spots: Sequence[Spot], mark: float | None, caption: str) -> Graphic:
    """A row for each system on one axis; title: the figure's name and title. mark: the value of the dashed line."""

    def draw(axes: Any) -> None:
        for row, spot in enumerate(spots):
            colour = _COLOURS[spot.look]
            for interval, width in ((spot.wide, 1.5), (spot.narrow, 5.0 if spot.wide else 2.5)):
                if interval:
                    axes.hlines(row, interval.low, interval.high, colour, linewidth=width)
            axes.plot(spot.single, [row] * len(spot.single), "|", color=colour, markersize=11)
            if spot.value is not None:
                axes.plot(spot.value, row, "o", color=colour, fillstyle="none" if spot.look == "same" else "full")
            at = {"xycoords": axes.get_yaxis_transform(), "xytext": (6, 0), "textcoords": "offset points"}
            axes.annotate(f"{spot.shown} {spot.more}".strip(), (1, row), va="center", **at)
        if mark is not None:
            axes.axvline(mark, linewidth=1, linestyle="--", zorder=0)
        axes.set_yticks(range(len(spots)), [fitted(spot.name) for spot in spots])
        axes.set_ylim(len(spots) - 0.5, -0.5)
        plain_axes(axes, "", "", "")

    texts = [f"{spot.name} {spot.shown}{_ends(spot.wide or spot.narrow)}" for spot in spots[:_DESCRIBED]]
    rest = f"; {len(spots) - _DESCRIBED} more in the tables" if len(spots) > _DESCRIBED else ""
    return graphic(*title, f"{'; '.join(texts)}{rest}.", caption, draw, 0.8 + 0.35 * len(spots))


def _ends(interval: Interval | None) -> str:
    return f" ({interval.low:.3f} to {interval.high:.3f})".replace("-", "−") if interval else ""
