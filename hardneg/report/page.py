"""A report laid out: Markdown, and one self-contained HTML page, from the same tables by two templates."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.evaluation.intervals import Interval
from hardneg.evaluation.metrics_json import Measured
from hardneg.records.layout import QUERY_TABLE, REPORT_HTML, REPORT_MARKDOWN
from hardneg.records.wording import counted, joined
from hardneg.report.content import (
    EQUIVALENT,
    UNDECIDED,
    WITHIN,
    ReportContent,
    Test,
    outcome,
    outcomes_explained,
    p_of_outcome,
    seed_section,
    systems_section,
    tests_section,
)
from hardneg.report.curve import History, learning_graphics, measurements
from hardneg.report.figure import CONTROLS
from hardneg.report.intervals import comparison_section
from hardneg.report.query_section import Passages, gains_section, query_section, write_query_table
from hardneg.report.table import Section, Table, cell, difference, equation, number
from hardneg.store.atomic_write import replace_text

if TYPE_CHECKING:
    from jinja2 import Environment


NAMES = (REPORT_MARKDOWN, REPORT_HTML, QUERY_TABLE)
HEAD = 20
"""Rows of a table whose rows open that Markdown has: its reader cannot close them."""

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#~$&"} | {"\n": " ", "\r": " "})


def write_report(folder: Path, report: ReportContent, measured: Measured, passages: Passages) -> list[Path]:
    """Writes `report.md` and `report.html`, which say the same, and all queries as `queries.tsv`; returns the paths.

    measured: what the report's means were made of, for the table by query; passages: what opens in it.
    """
    by_query, gains = query_section(measured, passages, report.system), gains_section(measured, report.system)
    whole = replace(report, by_query=by_query, gains=gains)
    paths = [folder / name for name in NAMES]
    replace_text(paths[0], markdown(whole))
    replace_text(paths[1], html(whole))
    write_query_table(paths[2], measured, passages.queries, report.system)
    return paths


def html(report: ReportContent) -> str:
    """Return the report as one self-contained page, light and dark; equal reports give equal text.

    The page has no script but its own, which sorts tables, and that only where one can be sorted.
    """
    content = _content(report)
    sortable = any(table.details for section in content["sections"] for table in section.tables)
    return _environment().get_template("report.html.j2").render(content | _script() | {"sortable": sortable})


def markdown(report: ReportContent) -> str:
    """Return the report as Markdown, for a model card or a log; equal reports give equal text."""
    environment = _environment().overlay(
        autoescape=False, finalize=lambda value: str(_printable(str(value))).translate(_SPECIAL)
    )
    return environment.get_template("report.md.j2").render(_content(report)).strip() + "\n"


def _content(report: ReportContent) -> dict[str, Any]:
    shown = sections(report)
    anchors = _anchors([section.title for section in shown])
    fields = {"title": report.title, "summary": summary(report), "sections": shown, "head": HEAD}
    return fields | {
        "anchors": anchors,
        "places": {section.title: at for section, at in zip(shown, anchors, strict=True)},
    }


def _anchors(titles: Sequence[str]) -> list[str]:
    """The anchor of each section: its title's letters and digits, and a number where that name is taken."""
    anchors: list[str] = []
    for title in titles:
        name = re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "section"
        anchors.append(name if name not in anchors else f"{name}-{len(anchors)}")
    return anchors


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    loader = PackageLoader("hardneg.report")
    environment = Environment(
        loader=loader,
        autoescape=True,
        finalize=_printable,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"cell": cell, "base64": lambda svg: b64encode(str(svg).encode()).decode(), "drawn": Markup}
    return environment


def _script() -> dict[str, Any]:
    """The script that sorts tables, and its digest for the page's security policy."""
    from markupsafe import Markup

    text = (files("hardneg.report") / "templates" / "sort.js").read_text("utf-8")
    return {"script": Markup(text), "digest": b64encode(sha256(text.encode()).digest()).decode()}


def _printable(value: Any) -> Any:
    """Replace control characters, which no page may have."""
    return CONTROLS.sub("\ufffd", value) if type(value) is str else value


def sections(report: ReportContent) -> list[Section]:
    """Return the sections below the title and the summary, in order, without empty ones.

    Figures first: the main comparison, gains and losses by query. Then the tables, what the systems cost, single
    queries, training, analyses, and how it was made.
    """
    seeds = seed_section(report.by_seed, report.over_seeds, report.level, report.query_groups)
    outcomes = [outcomes_explained(report)] if report.over_seeds else []
    names = sorted(report.settings, key=lambda name: (": " in name, name.casefold()))  # of all systems, then of one
    rows = [[name, str(report.settings[name])] for name in names]
    settings = [*([Table(["setting", "value"], rows, words=2)] if rows else []), *report.settings_tables]
    by_query = report.by_query
    if by_query is not None and report.browse:
        more = f"To search them all, and to see more of what was found: {report.browse}"
        by_query = replace(by_query, explained=f"{by_query.explained} {more}".strip())
    all_sections = (
        comparison_section(report),
        report.gains,
        systems_section(report) if report.systems else None,
        replace(seeds, lines=[*outcomes, *seeds.lines]) if report.by_seed else None,
        tests_section(report) if report.query_tests else None,
        report.costs,
        by_query,
        _training_section(report.histories),
        *report.sections,
        Section("How it was made", settings) if settings else None,
    )
    return [section for section in all_sections if section is not None]


def _training_section(histories: Mapping[str, History]) -> Section | None:
    """First, last and best loss and dev metrics of each model; None where nothing was measured."""
    rows = []
    for model, history in histories.items():
        for name, points in measurements(history).items():
            step, value = (min if name == "loss" else max)(points, key=lambda point: point[1])
            rows.append([model, name, number(points[0][1]), number(points[-1][1]), number(value), f"{step:g}"])
    table = Table(["model", "measured", "first", "last", "best", "at step"], rows, words=2)
    return Section("Training", [table], graphics=learning_graphics(histories)) if rows else None


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
