"""Rendering of reports: Markdown, LaTeX, and one self-contained HTML page with the main comparison as figures."""

import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from hardneg.evaluation import intervals, metrics, metrics_json
from hardneg.records import QUERY_TABLE, REPORT_HTML, REPORT_MARKDOWN, counted, joined
from hardneg.report import content, figure, query_section
from hardneg.report.content import ReportContent, Test, outcome
from hardneg.report.table import Graphic, Section, Table, cell, difference, equation, number, signed, within
from hardneg.store import replace_text

NAMES = (REPORT_MARKDOWN, REPORT_HTML, QUERY_TABLE)
HEAD = 20
"""Maximum number of rows that Markdown and printed pages show of a table with details."""

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#~$&"} | {"\n": " ", "\r": " "})
_NAMED = 4  # systems named for each outcome
_OUTCOMES = {
    "better": "better than",
    "worse": "worse than",
    content.EQUIVALENT: "equivalent to",
    content.WITHIN: "within the seeds' noise of",
    content.UNDECIDED: "not distinguishable from",
}


def write_report(
    folder: Path, report: ReportContent, measured: metrics_json.Measured, passages: query_section.Passages
) -> list[Path]:
    """Write `report.md` and `report.html`, with the same content, and `queries.tsv` with all queries; return the paths.

    measured: the evaluation that the report describes. passages: the sources of the passages shown for a query.
    """
    by_query = query_section.query_section(measured, passages, report.system)
    whole = replace(report, by_query=by_query, gains=query_section.gains_section(measured, report.system))
    paths = [folder / name for name in NAMES]
    replace_text(paths[0], markdown(whole))
    replace_text(paths[1], html(whole))
    query_section.write_query_table(paths[2], measured, passages.queries, report.system)
    return paths


def html(report: ReportContent) -> str:
    """Return the report as one self-contained page with a light and a dark theme; equal reports give equal text.

    The only script in the page sorts tables, and is present only if a table can be sorted.
    """
    from markupsafe import Markup

    filled, anchors = _filled(report), list[str]()
    for section in filled["sections"]:
        name = _slug(section.title) or "section"
        anchors.append(name if name not in anchors else f"{name}-{len(anchors)}")
    script = (files("hardneg.report") / "templates" / "sort.js").read_text("utf-8")
    digest = b64encode(sha256(script.encode()).digest()).decode()  # for the page's security policy
    filled |= {"anchors": anchors, "script": Markup(script), "digest": digest}
    filled["sortable"] = any(table.details for section in filled["sections"] for table in section.tables)
    text: str = _environment().get_template("report.html.j2").render(filled)
    return text


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def markdown(report: ReportContent) -> str:
    """Return the report as Markdown, for a model card or a log; equal reports give equal text."""
    environment = _environment().overlay(
        autoescape=False, finalize=lambda value: str(_printable(str(value))).translate(_SPECIAL)
    )
    text: str = environment.get_template("report.md.j2").render(_filled(report))
    return text.strip() + "\n"


_LATEX: dict[str, Any] = {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}"}
_LATEX |= {"^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--"}
_LATEX |= {"▲": r"$\uparrow$", "▼": r"$\downarrow$", "†": r"\dag{}", "‡": r"\ddag{}", "−": "$-$", "\n": " ", "\r": " "}


def latex(report: ReportContent) -> str:
    """Return the means as a LaTeX table that uses the package booktabs, with significance signs and a legend."""
    marks: Any = {"variable_start_string": "<<", "variable_end_string": ">>"}
    environment = _environment().overlay(
        autoescape=False, finalize=lambda value: str(_printable(str(value))).translate(str.maketrans(_LATEX)), **marks
    )
    section = content.systems_section(replace(report, notes=()))
    legend = [line for line in (section.lead, *section.lines) if line not in content.BRACKETS]
    rows = [section.tables[0].columns, *section.tables[0].rows]
    named = {"title": report.title, "label": _slug(report.title) or "results"}
    text: str = environment.get_template("table.tex.j2").render(named, legend=" ".join(legend), rows=rows)
    return text.strip() + "\n"


def _filled(report: ReportContent) -> dict[str, Any]:
    return {"title": report.title, "summary": summary(report), "sections": sections(report), "head": HEAD}


@cache
def _environment() -> Any:
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    settings: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
    loader = PackageLoader("hardneg.report")
    environment = Environment(loader=loader, finalize=_printable, undefined=StrictUndefined, **settings)
    environment.filters |= {"cell": cell, "base64": lambda svg: b64encode(str(svg).encode()).decode(), "drawn": Markup}
    return environment


def _printable(value: Any) -> Any:
    """Replace control characters, which pages may not contain."""
    return figure.CONTROLS.sub("\ufffd", value) if type(value) is str else value


def sections(report: ReportContent) -> list[Section]:
    """Return the sections below the title and the summary, in order, without empty ones.

    The main comparison and the gains and losses by query come first, followed by the means, seeds, tests, individual
    queries, training, analyses, next steps and settings.
    """
    names = sorted(report.settings, key=lambda name: (": " in name, name.casefold()))  # of all systems, then of one
    rows = [[name, str(report.settings[name])] for name in names]
    settings = [*([Table(["setting", "value"], rows, words=2)] if rows else []), *report.settings_tables]
    by_query, steps = report.by_query, [[sentence, command] for sentence, command in report.next]
    if by_query is not None and report.browse:
        more = f"To search all queries and see more results: {report.browse}"
        by_query = replace(by_query, explained=f"{by_query.explained} {more}".strip())
    all_sections = (
        comparison_section(report),
        report.gains,
        content.systems_section(report) if report.systems else None,
        content.seed_section(report) if report.by_seed else None,
        content.tests_section(report) if report.query_tests else None,
        by_query,
        _training_section(report.histories),
        *report.sections,
        Section("Next steps", [Table(["what to do next", "command"], steps, words=2)]) if steps else None,
        Section("How it was made", settings) if settings else None,
    )
    return [section for section in all_sections if section is not None]


def _training_section(histories: Mapping[str, figure.History]) -> Section | None:
    """Return the section with each model's first, last and best loss and dev metrics; None without measurements."""
    rows = []
    for model, history in histories.items():
        for name, points in figure.measurements(history).items():
            step, value = (min if name == "loss" else max)(points, key=lambda point: point[1])
            rows.append([model, name, number(points[0][1]), number(points[-1][1]), number(value), f"{step:g}"])
    table = Table(["model", "measured", "first", "last", "best", "at step"], rows, words=2)
    return Section("Training", [table], graphics=figure.learning_graphics(histories)) if rows else None


def summary(report: ReportContent) -> str:
    """Return one sentence on the results by the first metric; empty without systems.

    It compares the report's system with the others if that was tested, else all tested systems with the baseline.
    Without any test, it names the system with the highest mean.
    """
    if not report.metrics:
        return ""
    metric, over = report.metrics[0], report.over or counted(report.queries, "query", "queries")
    if not report.main_tests:
        ranked = {name: values[metric] for name, values in report.systems.items() if metric in values}
        best = max(ranked, key=lambda name: ranked[name].mean)
        ends, value = ranked[best].interval, number(ranked[best].mean)
        value += f" (95% interval {ends.low:.3f} to {ends.high:.3f})" if ends else ""
        if len(ranked) == 1:
            return f"{best} reaches {metric} {value} on {over}."
        return (
            f"Of {len(ranked)} systems on {over}, {best} has the highest {metric}, {value}. No difference was tested."
        )
    corrected = f"p after Holm's correction, level {report.level:g}"
    tests = [test for test in report.tests if test.metric == metric]
    facing: list[Any] = [test for test in tests if test.system == report.system]
    for test in tests:
        if test.baseline == report.system:  # the other way round
            ends, turned = (
                test.interval and intervals.Interval(-test.interval.high, -test.interval.low),
                -test.difference,
            )
            facing += [replace(test, system=report.system, baseline=test.system, difference=turned, interval=ends)]
    if facing:
        told = joined([f"{_OUTCOMES[word]} {names}" for word, names in _outcomes(report, facing, "baseline").items()])
        return f"{_quoted(report.system)} is {told}, by {metric} on {over} ({corrected})."
    found = _outcomes(report, report.main_tests.values(), "system")
    told = "; ".join(f"{word}: {names}" for word, names in found.items())
    return f"Against the baseline {_quoted(report.baseline)}, by {metric} on {over} ({corrected}): {told}."


def _outcomes(report: ReportContent, tests: Iterable[Test], named: str) -> dict[str, str]:
    """Return the systems by outcome as text, largest differences first. named: the test field with their names."""
    by_outcome: dict[str, list[str]] = {word: [] for word in _OUTCOMES}
    for test in sorted(tests, key=lambda test: -abs(test.difference)):
        word, name = outcome(test, report.level), getattr(test, named)
        same = word == content.EQUIVALENT
        p = equation("TOST p", test.equivalence_holm) if same else equation("p", content.p_of(test))
        began = "its initial model, " if report.began and name == report.began else ""
        by_outcome[word].append(f"{began}{_quoted(name)} ({difference(test.difference, test.interval)}, {p})")
    more = {word: [f"{len(each) - _NAMED} more"] if len(each) > _NAMED else [] for word, each in by_outcome.items()}
    return {word: joined([*each[:_NAMED], *more[word]]) for word, each in by_outcome.items() if each}


def _quoted(name: str) -> str:
    return f"“{name}”" if " " in name else name


_COLOURS = {"plain": figure.COLOURS[0], "better": figure.COLOURS[0], "worse": figure.COLOURS[1]}
_COLOURS |= {"same": "#808890", "base": "#808890"}
_SEEDS = " Thick: over queries; thin: over queries and seeds"


@dataclass(frozen=True)
class Spot:
    """One system's row in a figure.

    value: the mean or difference, None if unknown. narrow: its 95% interval over queries. wide: the interval over
    queries and seeds, if any. look: a key of `_COLOURS`. single: seeds' values. shown, more: the label on the right.
    """

    name: str
    value: float | None
    narrow: intervals.Interval | None = None
    wide: intervals.Interval | None = None
    look: str = "plain"
    single: Sequence[float] = ()
    shown: str = "–"
    more: str = ""


def comparison_section(report: ReportContent) -> Section | None:
    """Return the section with figures of means and differences by the first metric; None for fewer than two systems."""
    if not report.metrics or sum(report.metrics[0] in values for values in report.systems.values()) < 2:
        return None
    metric, baseline = report.metrics[0], report.baseline
    spots = list(_means(report, metric))
    caption = f"Mean {metric} and its 95% interval.{' Dashed: the baseline.' if baseline else ''}"
    caption += f"{_SEEDS}; short lines: the mean of each seed." if report.by_seed else ""
    mark = next((spot.value for spot in spots if spot.name == baseline), None)
    graphics = [_drawn("means", f"Mean {metric} by system", spots, mark, caption)]
    if report.main_tests:
        caption = f"Difference in {metric} from {baseline}, paired by query, and its 95% interval. "
        caption += f"Filled: p < {report.level:g} after Holm's correction; hollow: no significant difference."
        caption += f"{_SEEDS}." if report.over_seeds else ""
        title = f"Difference in {metric} from {baseline}"
        graphics.append(_drawn("differences", title, list(_differences(report, metric)), 0.0, caption))
    return Section("Main comparison", graphics=graphics, lines=report.notes)


def _means(report: ReportContent, metric: str) -> Iterator[Spot]:
    for name, values in report.systems.items():
        if metric in values:
            mean, seeds = values[metric], list(report.by_seed.get(name, {}).values())
            narrow = mean.interval
            if seeds:
                narrow = within(intervals.interval_of(metrics.averaged(seeds)[metric], report.query_groups), 0.0)
            wide, look = mean.interval if seeds else None, "base" if name == report.baseline else "plain"
            single = [metrics.means(scores)[metric] for scores in seeds]
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
            shown, more = signed(test.difference), equation("p", content.p_of(test))
            yield Spot(name, test.difference, narrow, wide, look, shown=shown, more=more)
        elif metric in values:
            yield Spot(name, None)


def _drawn(name: str, title: str, spots: Sequence[Spot], mark: float | None, caption: str) -> Graphic:
    """Draw a row for each system on one axis. mark: the value of the dashed line, if any."""

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
        axes.set_yticks(range(len(spots)), [figure.fitted(spot.name) for spot in spots])
        axes.set_ylim(len(spots) - 0.5, -0.5)
        figure.plain_axes(axes, "", "", "")

    texts = []
    for spot in spots[:12]:
        ends = spot.wide or spot.narrow
        interval = f" ({ends.low:.3f} to {ends.high:.3f})".replace("-", "−") if ends else ""
        texts.append(f"{spot.name} {spot.shown}{interval}")
    rest = f"; {len(spots) - 12} more in the tables" if len(spots) > 12 else ""
    return figure.graphic(name, title, f"{'; '.join(texts)}{rest}.", caption, draw, 0.8 + 0.35 * len(spots))
