"""What is known at the end of a recipe, as a page to read: systems, paired tests, training, how it was made.

This module holds the `Report` and the words in it; `report_markdown` and `report_html` lay them out.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from string import ascii_lowercase

from hardneg.evaluation.metrics import means
from hardneg.evaluation.significance import Comparison, Interval, interval_of
from hardneg.reporting.curve import History, measurements
from hardneg.reporting.table import Section

LEVEL = 0.01
"""Below this both corrected p values have a difference marked."""

_MARKS = ("†", "‡", "§", "¶", "‖", *ascii_lowercase)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its 95 % confidence interval, None where there are fewer than two queries."""

    mean: float
    interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """All that a report page says.

    systems: estimates by metric by system, in the order to show.
    histories: for each trained model the trainer's rows: `step`, `loss`, and measurements on the dev set.
    settings: how it was made, name by name; values are shown as they print.
    marks: signs, and the systems that one must be better than to have it; empty: a sign for each baseline.
    sections: analyses, shown before how it was made.
    """

    title: str
    systems: Mapping[str, Mapping[str, Estimate]]
    queries: int
    comparisons: Sequence[Comparison] = ()
    histories: Mapping[str, History] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    notes: Sequence[str] = ()
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    sections: Sequence[Section] = ()

    @property
    def metrics(self) -> list[str]:
        """The metrics of all systems, each once, in order of appearance."""
        return list(dict.fromkeys(name for estimates in self.systems.values() for name in estimates))


def estimates(scores: Mapping[str, Mapping[str, float]]) -> dict[str, Estimate]:
    """One system's means and intervals from its scores by metric and query; intervals end where metrics do."""
    return {name: Estimate(mean, within(interval_of(scores[name]), 0.0)) for name, mean in means(scores).items()}


def within(interval: Interval | None, low: float, high: float = 1.0) -> Interval | None:
    """The part of an interval from `low` to `high`, the least and the most that a mean can be.

    An interval by Student's t knows no such ends; what is cut off holds no value, so that the rest covers as much.
    """
    return interval and Interval(max(interval.low, low), min(interval.high, high))


def baseline_marks(comparisons: Iterable[Comparison]) -> dict[str, str]:
    """A sign for each baseline that something differs from significantly, in order of appearance."""
    named = dict.fromkeys(c.baseline for c in comparisons if c.significant(LEVEL))
    return {name: _MARKS[i] if i < len(_MARKS) else f"[{i + 1}]" for i, name in enumerate(named)}


def marks_of(report: Report, system: str, metric: str) -> str:
    """The signs of the baselines that this system differs from significantly by this metric, or those it has earned."""
    if report.marks:
        beaten = _beaten(report, system, metric)
        return "".join(sign for sign, rows in report.marks.items() if beaten.issuperset(rows))
    signs = baseline_marks(report.comparisons)
    return "".join(
        signs[c.baseline]
        for c in report.comparisons
        if c.system == system and c.metric == metric and c.significant(LEVEL)
    )


def _beaten(report: Report, system: str, metric: str) -> set[str]:
    """The systems that this one is significantly better than; the tests may have been made the other way round."""
    tests = [c for c in report.comparisons if c.metric == metric and c.significant(LEVEL)]
    above = {c.baseline for c in tests if c.system == system and c.difference > 0}
    return above | {c.system for c in tests if c.baseline == system and c.difference < 0}


def best(report: Report, metric: str) -> float | None:
    """The highest mean by a metric; None where there is nothing to choose from."""
    found = [values[metric].mean for values in report.systems.values() if metric in values]
    return max(found) if len(found) > 1 else None


def summary(report: Report) -> str:
    """One sentence with the outcome by the first metric; empty where there is no system."""
    if not report.metrics:
        return ""
    metric = report.metrics[0]
    ranked = {name: values[metric] for name, values in report.systems.items() if metric in values}
    winner = max(ranked, key=lambda name: ranked[name].mean)
    value = f"{metric} {number(ranked[winner].mean)}{_interval_note(ranked[winner].interval)}"
    if len(ranked) == 1:
        return f"{winner} reaches {value}."
    tested = _against(report, winner, metric)
    return f"{winner} is best of {len(ranked)} systems with {value}. {tested}".strip()


def legend(report: Report) -> list[str]:
    """What bold, brackets and each sign of the first table mean, one sentence each."""
    signs = {} if report.marks else baseline_marks(report.comparisons)
    proof = f"p < {LEVEL:g} in both paired tests after Holm's correction"
    lines = [f"{sign} differs from {name}: {proof}." for name, sign in signs.items()]
    lines += [f"{sign} better than {_all_of(rows)}: {proof}." for sign, rows in report.marks.items()]
    if report.comparisons and not report.marks and not signs:
        lines.append(f"No difference has {proof}.")
    if len(report.systems) > 1:
        lines.append("Bold: the highest mean.")
    if any(e.interval for values in report.systems.values() for e in values.values()):
        lines.append("Brackets: 95 % confidence interval of the mean over queries (Student's t, cut at 0 and 1).")
    return lines


TESTS_EXPLAINED = (
    "Differences are system minus baseline over the same queries, with a 95 % t interval. "
    "Tests are two-sided: the paired t-test and the paired randomisation test, each with Holm's correction "
    "over all comparisons by the same metric."
)


def number(value: float) -> str:
    """Four digits after the point, as papers print them."""
    return f"{value:.4f}"


def signed(value: float) -> str:
    """Four digits with a sign."""
    return f"{value:+.4f}".replace("-", "−")


def p_value(value: float) -> str:
    """Three digits, or how small it is."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def bounds(interval: Interval | None, show: str = ".3f") -> str:
    """The two ends in brackets; a dash where there is no interval."""
    return f"[{interval.low:{show}}, {interval.high:{show}}]".replace("-", "−") if interval else "–"


def difference_bounds(comparison: Comparison) -> str:
    """The interval of a difference with signs, between -1 and 1."""
    return bounds(within(comparison.interval, -1.0), "+.3f")


def test_row(comparison: Comparison) -> list[str]:
    """The cells of one row of the table of paired tests; see `TEST_COLUMNS`."""
    c = comparison
    tests = [p_value(c.t_p), p_value(c.t_holm), p_value(c.randomisation_p), p_value(c.randomisation_holm)]
    return [c.metric, c.system, c.baseline, signed(c.difference), difference_bounds(c), *tests]


TEST_COLUMNS = (
    "metric", "system", "baseline", "difference", "95 % interval",
    "t-test p", "Holm", "randomised p", "Holm",
)  # fmt: skip


def training_rows(history: History) -> list[list[str]]:
    """For the loss and each dev metric of one model: name, first, last, best and its step."""
    rows = []
    for name, points in measurements(history).items():
        ordered = sorted(points, key=lambda point: point[1], reverse=name != "loss")
        step, value = ordered[0]
        rows.append([name, f"{points[0][1]:.4f}", f"{points[-1][1]:.4f}", f"{value:.4f}", f"{step:g}"])
    return rows


TRAINING_COLUMNS = ("measured", "first", "last", "best", "at step")


def _all_of(names: Sequence[str]) -> str:
    return f"each of {', '.join(names)}" if len(names) > 1 else "".join(names)


def _interval_note(interval: Interval | None) -> str:
    return f" (95 % interval {interval.low:.3f} to {interval.high:.3f})" if interval else ""


def _against(report: Report, winner: str, metric: str) -> str:
    """What the tests say about the winner."""
    found = [c for c in report.comparisons if c.metric == metric and winner in (c.system, c.baseline)]
    if not found:
        return ""
    beaten = [c.baseline if c.system == winner else c.system for c in found if c.significant(LEVEL)]
    if beaten:
        return f"It differs significantly from {', '.join(beaten)}."
    others = [c.baseline if c.system == winner else c.system for c in found]
    return f"It does not differ significantly from {' or '.join(others)}."
