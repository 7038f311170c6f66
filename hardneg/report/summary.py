"""The report in one sentence: what was compared on what, and which differences hold."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from hardneg.evaluation.intervals import Interval
from hardneg.records import counted, joined
from hardneg.report.content import EQUIVALENT, UNDECIDED, WITHIN, ReportContent, Test, outcome, p_of_outcome
from hardneg.report.numbers import difference, equation, number

_NAMED = 4  # systems of one outcome that are named
_OUTCOMES = {
    "better": "better than",
    "worse": "worse than",
    EQUIVALENT: "equivalent to",
    WITHIN: "within the seeds' noise of",
    UNDECIDED: "undecided against",
}


def summary(report: ReportContent) -> str:
    """Return one sentence: what was compared on what by the first metric, and the outcome; empty without systems.

    It is about the report's system, where it has one that was tested; else about all that were, against the baseline.
    """
    if not report.metrics:
        return ""
    metric, over = report.metrics[0], report.over or counted(report.queries, "query", "queries")
    if not report.main_tests:
        return _without_tests(report, over)
    corrected = f"p after Holm's correction, level {report.level:g}"
    tests = [test for test in report.tests if test.metric == metric]
    if facing := [turned for test in tests if (turned := _facing(test, report.system))]:
        found = _outcomes(report, facing, lambda test: test.baseline)
        told = joined([f"{_OUTCOMES[word]} {names}" for word, names in found.items()])
        return f"{quoted(report.system)} is {told}, by {metric} on {over} ({corrected})."
    found = _outcomes(report, report.main_tests.values(), lambda test: test.system)
    told = "; ".join(f"{word}: {names}" for word, names in found.items())
    return f"Against the baseline {quoted(report.baseline)}, by {metric} on {over} ({corrected}): {told}."


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


def _facing(test: Test, system: str) -> Test | None:
    """A test of a system as its difference from the other one; None for a test of others."""
    if test.baseline != system:
        return test if test.system == system else None
    ends = test.interval and Interval(-test.interval.high, -test.interval.low)
    return replace(test, system=system, baseline=test.system, difference=-test.difference, interval=ends)


def _outcomes(report: ReportContent, tests: Iterable[Test], name_of: Callable[[Test], str]) -> dict[str, str]:
    """By outcome the systems in words, the largest differences first."""
    by_outcome: dict[str, list[Test]] = {word: [] for word in _OUTCOMES}
    for test in sorted(tests, key=lambda test: -abs(test.difference)):
        by_outcome[outcome(test, report.level)].append(test)
    told: dict[str, str] = {}
    for word, found in by_outcome.items():
        named = []
        for test in found[:_NAMED]:
            p = equation("TOST p" if word == EQUIVALENT else "p", p_of_outcome(test, report.level))
            began = "the model it began from, " if report.began and name_of(test) == report.began else ""
            named.append(f"{began}{quoted(name_of(test))} ({difference(test.difference, test.interval)}, {p})")
        more = [f"{len(found) - _NAMED} more"] if len(found) > _NAMED else []
        told |= {word: joined([*named, *more])} if found else {}
    return told


def quoted(name: str) -> str:
    """Return a name of several words in quotes."""
    return f"“{name}”" if " " in name else name
