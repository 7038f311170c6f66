"""The report in one sentence where it is about one system: what that is better than, and what it is not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hardneg.evaluation.significance import Interval
from hardneg.records.wording import joined
from hardneg.report.content import ReportContent, Test, p_of
from hardneg.report.numbers import difference, equation
from hardneg.report.seeds import NOT_TOLD, WITHIN, outcome

_NAMED = 4  # systems of one outcome that are told by name
_WORDS = {"better": "better than", "worse": "worse than", WITHIN: f"{WITHIN} of", NOT_TOLD: "not told apart from"}


def story(report: ReportContent, over: str) -> str:
    """How the system compares with each one that it was tested against; empty where there is no such test.

    over: the queries and the collection.
    """
    tests = list(facing(report))
    found = {word: [test for test in tests if outcome(test, report.level) == word] for word in _WORDS}
    told = [_told(report, word, each) for word, each in found.items() if each]
    if not told:
        return ""
    holm = f"p after Holm's correction, level {report.level:g}"
    return f"{quoted(report.system)} is {joined(told)}, by {report.metrics[0]} on {over} ({holm})."


def facing(report: ReportContent) -> Iterator[Test]:
    """The tests of the report's system by the first metric, each as its difference from the other system."""
    for test in report.tests:
        if test.metric in report.metrics[:1] and report.system in (test.system, test.baseline):
            yield test if test.system == report.system else _turned(test)


def quoted(name: str) -> str:
    """A name of several words as one."""
    return f"“{name}”" if " " in name else name


def _turned(test: Test) -> Test:
    ends = test.interval and Interval(-test.interval.high, -test.interval.low)
    return replace(test, system=test.baseline, baseline=test.system, difference=-test.difference, interval=ends)


def _told(report: ReportContent, word: str, tests: Sequence[Test]) -> str:
    """Systems of one outcome, the largest differences first."""
    ordered = sorted(tests, key=lambda test: -abs(test.difference))
    named = [
        f"{_name(report, test.baseline)} ({difference(test.difference, test.interval)}, {equation('p', p_of(test))})"
        for test in ordered[:_NAMED]
    ]
    more = len(ordered) - _NAMED
    return f"{_WORDS[word]} {joined([*named, *([f'{more} more'] if more > 0 else [])])}"


def _name(report: ReportContent, system: str) -> str:
    return f"the model it began from, {quoted(system)}" if system == report.began else quoted(system)
