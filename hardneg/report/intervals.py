"""The main comparison as figures: each system's mean with its interval, and its difference from the baseline."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from hardneg.evaluation.intervals import Interval, interval_of
from hardneg.evaluation.metrics import averaged, means
from hardneg.report.content import ReportContent, outcome, p_of
from hardneg.report.figure import COLOURS, fitted, graphic, plain_axes
from hardneg.report.table import Graphic, Section, equation, number, signed, within

_DESCRIBED = 12
_COLOURS = {"plain": COLOURS[0], "better": COLOURS[0], "worse": COLOURS[1], "same": "#808890", "base": "#808890"}
_SEEDS = " Thick: over queries; thin: over queries and seeds"


@dataclass(frozen=True)
class Spot:
    """One system's row in a figure.

    value: None if unknown. narrow: its 95 % interval over queries; wide: over queries and seeds, None with one seed.
    look: of the dot, one of `_COLOURS`. single: the value of each seed. shown: stands beside it.
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
    """Return means and differences by the first metric as figures; None with fewer than two systems."""
    if not report.metrics or sum(report.metrics[0] in values for values in report.systems.values()) < 2:
        return None
    metric, baseline = report.metrics[0], report.baseline
    spots = list(_means(report, metric))
    caption = f"Mean {metric} and its 95 % interval.{' Dashed: the baseline.' if baseline else ''}"
    caption += f"{_SEEDS}; short lines: the mean of each seed." if report.by_seed else ""
    mark = next((spot.value for spot in spots if spot.name == baseline), None)
    graphics = [_drawn("means", f"Mean {metric} by system", spots, mark, caption)]
    if report.main_tests:
        caption = f"Difference in {metric} from {baseline}, paired by query, and its 95 % interval. "
        caption += f"Filled: p < {report.level:g} after Holm's correction; hollow: no difference shown."
        caption += f"{_SEEDS}." if report.over_seeds else ""
        title = f"Difference in {metric} from {baseline}"
        graphics.append(_drawn("differences", title, list(_differences(report, metric)), 0.0, caption))
    return Section("Main comparison", graphics=graphics, lines=report.notes)


def _means(report: ReportContent, metric: str) -> Iterator[Spot]:
    for name, values in report.systems.items():
        if metric in values:
            mean, seeds = values[metric], list(report.by_seed.get(name, {}).values())
            narrow = within(interval_of(averaged(seeds)[metric], report.query_groups), 0.0) if seeds else mean.interval
            wide, look = mean.interval if seeds else None, "base" if name == report.baseline else "plain"
            single = [means(scores)[metric] for scores in seeds]
            yield Spot(name, mean.mean, narrow, wide, look, single, number(mean.mean))


def _differences(report: ReportContent, metric: str) -> Iterator[Spot]:
    """Yield the systems in the report's order, the baseline at 0."""
    baseline, tests = report.baseline, report.main_tests
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


def _drawn(name: str, title: str, spots: Sequence[Spot], mark: float | None, caption: str) -> Graphic:
    """Draw a row for each system on one axis; mark: the value of the dashed line."""

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

    texts = []
    for spot in spots[:_DESCRIBED]:
        ends = spot.wide or spot.narrow
        interval = f" ({ends.low:.3f} to {ends.high:.3f})".replace("-", "−") if ends else ""
        texts.append(f"{spot.name} {spot.shown}{interval}")
    rest = f"; {len(spots) - _DESCRIBED} more in the tables" if len(spots) > _DESCRIBED else ""
    return graphic(name, title, f"{'; '.join(texts)}{rest}.", caption, draw, 0.8 + 0.35 * len(spots))
