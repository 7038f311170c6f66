"""A report laid out: Markdown, and one self-contained HTML page, from the same tables by two templates."""

import re
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.evaluation.intervals import Interval
from hardneg.evaluation.metrics_json import Measured
from hardneg.records import QUERY_TABLE, REPORT_HTML, REPORT_MARKDOWN, counted, joined
from hardneg.report import content, query_section
from hardneg.report.content import ReportContent, Test
from hardneg.report.figure import CONTROLS, History, learning_graphics, measurements
from hardneg.report.intervals import comparison_section
from hardneg.report.query_section import Passages
from hardneg.report.table import Cell, Section, Table, cell, difference, equation, number
from hardneg.store import replace_text

if TYPE_CHECKING:
    from jinja2 import Environment

NAMES = (REPORT_MARKDOWN, REPORT_HTML, QUERY_TABLE)
HEAD = 20
"""Rows of a table whose rows open that Markdown has: its reader cannot close them."""

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#~$&"} | {"\n": " ", "\r": " "})
_NAMED = 4  # systems of one outcome that are named
_OUTCOMES = {
    "better": "better than",
    "worse": "worse than",
    content.EQUIVALENT: "equivalent to",
    content.WITHIN: "within the seeds' noise of",
    content.UNDECIDED: "undecided against",
}
_TIMES = (("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))
_UNITS = {"size": ("MB", 1e6), "query": ("ms a query", 1.0)}
_COSTS = {
    "training": "training",
    "indexing": "encoding, indexing",
    "size": "size of the index",
    "query": "search",
    "steps": "all steps",
}
_COSTS_EXPLAINED = (
    "Wall time of whole stages, from their manifests: a search opens its index and encodes its queries. All "
    "steps: each stage that the system's run needs, mining included, once. –: the recipe has no such stage."
)


def write_report(folder: Path, report: ReportContent, measured: Measured, passages: Passages) -> list[Path]:
    """Write `report.md` and `report.html`, which say the same, and all queries as `queries.tsv`; return the paths.

    measured: what the report's means were made of, for the table by query; passages: what opens in it.
    """
    by_query = query_section.query_section(measured, passages, report.system)
    whole = replace(report, by_query=by_query, gains=query_section.gains_section(measured, report.system))
    paths = [folder / name for name in NAMES]
    replace_text(paths[0], markdown(whole))
    replace_text(paths[1], html(whole))
    query_section.write_query_table(paths[2], measured, passages.queries, report.system)
    return paths


def html(report: ReportContent) -> str:
    """Return the report as one self-contained page, light and dark; equal reports give equal text.

    The page has no script but its own, which sorts tables, and that only where one can be sorted.
    """
    from markupsafe import Markup

    filled, anchors = _filled(report), list[str]()
    for section in filled["sections"]:
        name = re.sub(r"[^a-z0-9]+", "-", section.title.lower()).strip("-") or "section"
        anchors.append(name if name not in anchors else f"{name}-{len(anchors)}")
    script = (files("hardneg.report") / "templates" / "sort.js").read_text("utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()  # for the page's security policy
    filled |= {"anchors": anchors, "script": Markup(script), "digest": digest}
    filled["sortable"] = any(table.details for section in filled["sections"] for table in section.tables)
    return _environment().get_template("report.html.j2").render(filled)


def markdown(report: ReportContent) -> str:
    """Return the report as Markdown, for a model card or a log; equal reports give equal text."""
    environment = _environment().overlay(
        autoescape=False, finalize=lambda value: str(_printable(str(value))).translate(_SPECIAL)
    )
    return environment.get_template("report.md.j2").render(_filled(report)).strip() + "\n"


def _filled(report: ReportContent) -> dict[str, Any]:
    return {"title": report.title, "summary": summary(report), "sections": sections(report), "head": HEAD}


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    settings: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    loader = PackageLoader("hardneg.report")
    environment = Environment(loader=loader, finalize=_printable, undefined=StrictUndefined, **settings)
    environment.filters |= {"cell": cell, "base64": lambda svg: b64encode(str(svg).encode()).decode(), "drawn": Markup}
    return environment


def _printable(value: Any) -> Any:
    """Replace control characters, which no page may have."""
    return CONTROLS.sub("\ufffd", value) if type(value) is str else value


def sections(report: ReportContent) -> list[Section]:
    """Return the sections below the title and the summary, in order, without empty ones.

    Figures first: the main comparison, gains and losses by query. Then the tables, what the systems cost, single
    queries, training, analyses, and how it was made.
    """
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
        content.systems_section(report) if report.systems else None,
        content.seed_section(report) if report.by_seed else None,
        content.tests_section(report) if report.query_tests else None,
        report.costs,
        by_query,
        _training_section(report.histories),
        *report.sections,
        Section("How it was made", settings) if settings else None,
    )
    return [section for section in all_sections if section is not None]


def _training_section(histories: Mapping[str, History]) -> Section | None:
    """Return first, last and best loss and dev metrics of each model; None where nothing was measured."""
    rows = []
    for model, history in histories.items():
        for name, points in measurements(history).items():
            step, value = (min if name == "loss" else max)(points, key=lambda point: point[1])
            rows.append([model, name, number(points[0][1]), number(points[-1][1]), number(value), f"{step:g}"])
    table = Table(["model", "measured", "first", "last", "best", "at step"], rows, words=2)
    return Section("Training", [table], graphics=learning_graphics(histories)) if rows else None


def summary(report: ReportContent) -> str:
    """Return one sentence: what was compared on what by the first metric, and the outcome; empty without systems.

    It is about the report's system, where it has one that was tested; else about all that were, against the baseline.
    """
    if not report.metrics:
        return ""
    metric, over = report.metrics[0], report.over or counted(report.queries, "query", "queries")
    if not report.main_tests:
        ranked = {name: values[metric] for name, values in report.systems.items() if metric in values}
        best = max(ranked, key=lambda name: ranked[name].mean)
        ends, value = ranked[best].interval, number(ranked[best].mean)
        value += f" (95 % interval {ends.low:.3f} to {ends.high:.3f})" if ends else ""
        if len(ranked) == 1:
            return f"{best} reaches {metric} {value} on {over}."
        return (
            f"Of {len(ranked)} systems on {over}, {best} has the highest {metric}, {value}. No difference was tested."
        )
    corrected = f"p after Holm's correction, level {report.level:g}"
    tests = [test for test in report.tests if test.metric == metric]
    if facing := [_facing(test, report.system) for test in tests if report.system in (test.system, test.baseline)]:
        told = joined([f"{_OUTCOMES[word]} {names}" for word, names in _outcomes(report, facing, "baseline").items()])
        return f"{_quoted(report.system)} is {told}, by {metric} on {over} ({corrected})."
    found = _outcomes(report, report.main_tests.values(), "system")
    told = "; ".join(f"{word}: {names}" for word, names in found.items())
    return f"Against the baseline {_quoted(report.baseline)}, by {metric} on {over} ({corrected}): {told}."


def _facing(test: Test, system: str) -> Test:
    """Return a test of a system as its difference from the other one."""
    if test.system == system:
        return test
    ends = test.interval and Interval(-test.interval.high, -test.interval.low)
    return replace(test, system=system, baseline=test.system, difference=-test.difference, interval=ends)


def _outcomes(report: ReportContent, tests: Iterable[Test], named: str) -> dict[str, str]:
    """Return by outcome the systems in words, the largest differences first; named: the field of a test that has them.

    The model that a system was trained from is called so.
    """
    by_outcome: dict[str, list[str]] = {word: [] for word in _OUTCOMES}
    for test in sorted(tests, key=lambda test: -abs(test.difference)):
        word, name = content.outcome(test, report.level), getattr(test, named)
        p = equation("TOST p" if word == content.EQUIVALENT else "p", content.p_of_outcome(test, report.level))
        began = "the model it began from, " if report.began and name == report.began else ""
        by_outcome[word].append(f"{began}{_quoted(name)} ({difference(test.difference, test.interval)}, {p})")
    more = {word: [f"{len(each) - _NAMED} more"] if len(each) > _NAMED else [] for word, each in by_outcome.items()}
    return {word: joined([*each[:_NAMED], *more[word]]) for word, each in by_outcome.items() if each}


def _quoted(name: str) -> str:
    return f"“{name}”" if " " in name else name


@dataclass(frozen=True, slots=True)
class SystemCosts:
    """The costs of one system, the mean over its seeds; None if not known.

    training, indexing, steps: seconds of its trainings, of encoding and indexing the collection, and of all steps.
    size: bytes of its index. query: milliseconds of search for one of all queries at once. devices: where.
    """

    training: float | None = None
    indexing: float | None = None
    size: float | None = None
    query: float | None = None
    steps: float | None = None
    devices: Sequence[str] = ()


def costs_section(costs: Mapping[str, SystemCosts], means: Mapping[str, float], metric: str) -> Section | None:
    """Return a table of the costs that are known of any system; None if nothing is.

    means: of each system by `metric`. Times are in the largest unit of which the shortest one has at least one.
    """
    columns = [Cell("system"), Cell(metric)]
    rows = {name: [name, number(means[name]) if name in means else "–"] for name in costs}
    for field, title in _COSTS.items():
        values = {name: getattr(each, field) for name, each in costs.items()}
        if not (known := [value for value in values.values() if value]):
            continue
        unit, one = _UNITS.get(field) or next((each for each in _TIMES if min(known) >= each[1]), _TIMES[-1])
        columns.append(Cell(title, note=unit))
        for name, value in values.items():
            in_units = value / one if value else 0.0
            rows[name].append(f"{in_units:,.0f}" if in_units >= 100 else f"{in_units:.3g}" if value else "–")
    if len(columns) == 2:
        return None
    devices = list(dict.fromkeys(device for each in costs.values() for device in each.devices))
    explained = f"{_COSTS_EXPLAINED} Measured on: {', '.join(devices)}." if devices else _COSTS_EXPLAINED
    return Section("Cost beside quality", [Table(columns, list(rows.values()))], explained)
