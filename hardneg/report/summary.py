"""The report in one sentence: what was compared on what, and which differences hold."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hardneg.evaluation.intervals import Interval
from hardneg.records.wording import counted, joined
from hardneg.report.content import EQUIVALENT, UNDECIDED, WITHIN, ReportContent, Test, outcome, p_of_outcome
from hardneg.report.numbers import difference, equation, number

_NAMED = 3  # systems of one outcome that are named
_HOLD = {
    "better": ("is better", "are better"),
    "worse": ("is worse", "are worse"),
    EQUIVALENT: ("is equivalent", "are equivalent"),
    UNDECIDED: ("does not differ beyond chance at {level:g}", "do not differ beyond chance at {level:g}"),
    WITHIN: ("differs within the seeds' noise", "differ within the seeds' noise"),
}
_SHOWN = ("better", "worse", EQUIVALENT)

_MOST_FACED = 4  # the same, where the report is about one system
_FACED = {
    "better": "better than",
    "worse": "worse than",
    EQUIVALENT: "equivalent to",
    WITHIN: "within the seeds' noise of",
    UNDECIDED: "undecided against",
}


def summary(report: ReportContent) -> str:
    """Return one sentence: what was compared on what by the first metric, and the outcome; empty without systems."""
    if not report.metrics:
        return ""
    tests, over = report.main_tests, report.over or counted(report.queries, "query", "queries")
    if not tests:
        return _without_tests(report, over)
    if facing_one := story(report, over):
        return facing_one
    compared = joined(list(map(quoted, tests))) if len(tests) <= _NAMED else f"{len(tests)} systems"
    by_outcome: dict[str, list[Test]] = {name: [] for name in _HOLD}
    for test in sorted(tests.values(), key=lambda test: -abs(test.difference)):
        by_outcome[outcome(test, report.level)].append(test)
    outcomes = [_held_by(each, name, report.level) for name, each in by_outcome.items() if each]
    compared += f" against the baseline {quoted(report.baseline)}, on {over}, by {report.metrics[0]}"
    return f"{compared}: {'; '.join(outcomes)}."


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


def _held_by(tests: Sequence[Test], held: str, level: float) -> str:
    """Systems of one outcome, the first with its interval, and the p that all of them reach, or stay above."""
    named = [
        f"{quoted(test.system)} ({difference(test.difference, None if row else test.interval)})"
        for row, test in enumerate(tests[:_NAMED])
    ]
    more = len(tests) - _NAMED
    systems = joined([*named, *([f"{more} more"] if more > 0 else [])])
    p_values = [p_of_outcome(test, level) for test in tests]
    p = max(p_values) if held in _SHOWN else min(p_values)
    name = "TOST p" if held == EQUIVALENT else "p"
    above = " or more" if len(tests) > 1 and held not in _SHOWN else ""
    return f"{systems} {_HOLD[held][len(tests) > 1].format(level=level)} (corrected {equation(name, p)}{above})"


def story(report: ReportContent, over: str) -> str:
    """Return how the report's system compares with each one that it was tested against; empty without such a test.

    over: the queries and the collection.
    """
    tests = list(facing(report))
    by_outcome = {word: [test for test in tests if outcome(test, report.level) == word] for word in _FACED}
    outcomes = [_faced(report, word, each) for word, each in by_outcome.items() if each]
    if not outcomes:
        return ""
    holm = f"p after Holm's correction, level {report.level:g}"
    return f"{quoted(report.system)} is {joined(outcomes)}, by {report.metrics[0]} on {over} ({holm})."


def facing(report: ReportContent) -> Iterator[Test]:
    """Yield the tests of the report's system by the first metric, each as its difference from the other system."""
    for test in report.tests:
        if test.metric in report.metrics[:1] and report.system in (test.system, test.baseline):
            if test.system != report.system:
                ends = test.interval and Interval(-test.interval.high, -test.interval.low)
                test = replace(
                    test, system=test.baseline, baseline=test.system, difference=-test.difference, interval=ends
                )
            yield test


def quoted(name: str) -> str:
    """Return a name of several words in quotes."""
    return f"“{name}”" if " " in name else name


def _faced(report: ReportContent, word: str, tests: Sequence[Test]) -> str:
    """Systems of one outcome, the largest differences first."""
    ordered = sorted(tests, key=lambda test: -abs(test.difference))
    named = []
    for test in ordered[:_MOST_FACED]:
        p = equation("TOST p" if word == EQUIVALENT else "p", p_of_outcome(test, report.level))
        began = "the model it began from, " if test.baseline == report.began else ""
        named.append(f"{began}{quoted(test.baseline)} ({difference(test.difference, test.interval)}, {p})")
    more = len(ordered) - _MOST_FACED
    return f"{_FACED[word]} {joined([*named, *([f'{more} more'] if more > 0 else [])])}"
