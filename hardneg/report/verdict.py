"""The report in one sentence: what was compared on what, and which differences from the baseline hold."""

from collections.abc import Mapping, Sequence

from hardneg.records.wording import counted, joined
from hardneg.report.content import ReportContent, Test, p_of
from hardneg.report.numbers import difference, equation, number
from hardneg.report.seeds import NOT_TOLD, WITHIN, outcome
from hardneg.report.story import quoted, story

_NAMED = 3  # systems of one outcome that are told by name
_HOLD = {
    "better": ("is better", "are better"),
    "worse": ("is worse", "are worse"),
    NOT_TOLD: ("does not differ beyond chance at {level:g}", "do not differ beyond chance at {level:g}"),
    WITHIN: (f"differs {WITHIN}", f"differ {WITHIN}"),
}
_BEYOND = ("better", "worse")


def summary(report: ReportContent) -> str:
    """What was compared on what by the first metric, and what holds beyond chance; empty where there is no system."""
    if not report.metrics:
        return ""
    tests, over = report.main_tests, report.over or counted(report.queries, "query", "queries")
    if not tests:
        return _without_tests(report, over)
    if told := story(report, over):
        return told
    compared = joined(list(map(quoted, tests))) if len(tests) <= _NAMED else f"{len(tests)} systems"
    asked = f"{compared} against the baseline {quoted(report.baseline)}, on {over}, by {report.metrics[0]}"
    return f"{asked}: {_holding(tests, report.level)}."


def _without_tests(report: ReportContent, over: str) -> str:
    metric = report.metrics[0]
    ranked = {name: values[metric] for name, values in report.systems.items() if metric in values}
    best = max(ranked, key=lambda name: ranked[name].mean)
    interval = ranked[best].interval
    interval_note = f" (95 % interval {interval.low:.3f} to {interval.high:.3f})" if interval else ""
    value = f"{number(ranked[best].mean)}{interval_note}"
    if len(ranked) == 1:
        return f"{best} reaches {metric} {value} on {over}."
    return f"Of {len(ranked)} systems on {over}, {best} has the highest {metric}, {value}. No difference was tested."


def _holding(tests: Mapping[str, Test], level: float) -> str:
    """Each outcome with the systems that have it, the largest differences first."""
    found: dict[str, list[Test]] = {name: [] for name in _HOLD}
    for test in sorted(tests.values(), key=lambda test: -abs(test.difference)):
        found[outcome(test, level)].append(test)
    return "; ".join(_held_by(tests, name, level) for name, tests in found.items() if tests)


def _held_by(tests: Sequence[Test], held: str, level: float) -> str:
    """Systems of one outcome: the first with its interval; the p that all of them reach, or stay above."""
    named = [
        f"{quoted(test.system)} ({difference(test.difference, None if place else test.interval)})"
        for place, test in enumerate(tests[:_NAMED])
    ]
    more = len(tests) - _NAMED
    told = joined([*named, *([f"{more} more"] if more > 0 else [])])
    p = max(map(p_of, tests)) if held in _BEYOND else min(map(p_of, tests))
    above = " or more" if len(tests) > 1 and held not in _BEYOND else ""
    return f"{told} {_HOLD[held][len(tests) > 1].format(level=level)} (corrected {equation('p', p)}{above})"
