"""The report as one self-contained page: no script, nothing fetched, light and dark, all text escaped."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from hardneg.counting import counted
from hardneg.reporting.content import (
    TEST_COLUMNS,
    TESTS_EXPLAINED,
    TRAINING_COLUMNS,
    Report,
    best,
    bounds,
    legend,
    marks_of,
    number,
    summary,
    test_row,
    training_rows,
)
from hardneg.reporting.curve import curve_svg
from hardneg.reporting.figure import COLOURS
from hardneg.reporting.table import Section

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2024; --soft: #5b646d; --line: #d5dade; --page: #ffffff; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e3e7ea; --soft: #9aa4ad; --line: #3a4249; --page: #14181b; }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 2.5rem 1.25rem 4rem; }
h1 { font-size: 1.75rem; line-height: 1.25; margin: 0 0 .4rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .6rem; }
p { margin: .4rem 0; max-width: 46rem; }
.lead { font-size: 1.06rem; }
.soft, .legend, caption { color: var(--soft); font-size: .875rem; }
.legend { list-style: none; padding: 0; margin: .6rem 0 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
thead th { border-top: 2px solid var(--ink); border-bottom: 1px solid var(--ink); font-size: .875rem; }
tbody tr:last-child > * { border-bottom: 2px solid var(--ink); }
th, td { text-align: right; padding: .38rem 1rem .38rem .7rem; vertical-align: baseline; white-space: nowrap; }
th { font-weight: 600; }
tbody th { font-weight: 400; }
tbody tr + tr > * { border-top: 1px solid var(--line); }
.word { text-align: left; white-space: normal; overflow-wrap: break-word; max-width: 22rem; }
.ends { display: block; color: var(--soft); font-size: .78rem; font-weight: 400; }
sup { line-height: 0; display: inline-block; width: 0; text-indent: .1em; }
.figure { max-width: 100%; background: #ffffff; margin-top: .8rem; }
.small table { font-size: .85rem; }
.small th, .small td { padding: .3rem .5rem; }
.strong td, .strong th { font-weight: 600; }
.curve { width: 100%; height: auto; display: block; margin: .4rem 0; }
.keys { display: flex; flex-wrap: wrap; gap: .2rem 1.4rem; font-size: .9rem; padding: 0; list-style: none; }
.keys i { display: inline-block; width: 1.5em; height: .24em; border-radius: 1em; margin: 0 .5em .2em 0; }
.settings td { white-space: pre-wrap; overflow-wrap: anywhere; }
.settings td, .settings th { text-align: left; padding: .25rem .7rem .25rem 0; }
.settings th { color: var(--soft); width: 30%; }
"""


def html(report: Report) -> str:
    """The whole page; equal reports give equal text."""
    analyses = "".join(_section(section) for section in report.sections)
    sections = [_systems(report), _tests(report), _training(report), analyses, _settings(report), _notes(report)]
    title = escape(report.title)
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f'<p class="lead">{escape(summary(report))}</p>\n{"".join(sections)}</main>\n</body>\n</html>\n'
    )


def _systems(report: Report) -> str:
    """One row a system, metrics as columns."""
    if not report.systems:
        return ""
    tops = {metric: best(report, metric) for metric in report.metrics}
    rows = []
    for system, estimates in report.systems.items():
        cells = [f'<th scope="row" class="word">{escape(system)}</th>']
        for metric, top in tops.items():
            cells.append(_estimate(report, system, metric, top) if metric in estimates else "<td>–</td>")
        rows.append(f"<tr>{''.join(cells)}</tr>")
    queries = f'<p class="soft">Means over {counted(report.queries, "query")}.</p>'
    notes = "".join(f"<li>{escape(line)}</li>" for line in legend(report))
    table = _table(["system", *report.metrics], rows, words=1)
    return f'<h2>Effectiveness</h2>\n{queries}\n{table}\n<ul class="legend">{notes}</ul>\n'


def _estimate(report: Report, system: str, metric: str, top: float | None) -> str:
    estimate = report.systems[system][metric]
    shown = number(estimate.mean)
    shown = f"<strong>{shown}</strong>" if estimate.mean == top else shown
    marks = marks_of(report, system, metric)
    ends = f'<span class="ends">{bounds(estimate.interval)}</span>' if estimate.interval else ""
    return f"<td>{shown}{f'<sup>{escape(marks)}</sup>' if marks else ''}{ends}</td>"


def _tests(report: Report) -> str:
    """One row a comparison; significant ones are strong."""
    if not report.comparisons:
        return ""
    rows = []
    for comparison in report.comparisons:
        row = _row(test_row(comparison), words=3)
        rows.append(row.replace("<tr>", '<tr class="strong">', 1) if comparison.significant() else row)
    table = _table(TEST_COLUMNS, rows, words=3)
    explained = f'<p class="soft">{escape(TESTS_EXPLAINED)}</p>'
    return f'<h2>Paired tests</h2>\n<div class="small">{table}</div>\n{explained}\n'


def _training(report: Report) -> str:
    """The curve with its key, and first, last and best values."""
    svg = curve_svg(report.histories)
    if not svg:
        return ""
    keys = "".join(
        f'<li><i style="background: {COLOURS[i % len(COLOURS)]}"></i>{escape(name)}</li>'
        for i, name in enumerate(report.histories)
    )
    rows = [
        _row([name, *cells], words=2) for name, history in report.histories.items() for cells in training_rows(history)
    ]
    table = _table(["model", *TRAINING_COLUMNS], rows, words=2)
    return f'<h2>Training</h2>\n<ul class="keys">{keys}</ul>\n{svg}\n<div class="small">{table}</div>\n'


def _section(section: Section) -> str:
    """A table and its figure; as a picture of its own its names cannot meet those of another."""
    tables = "\n".join(
        _table(table.columns, [_row(row, table.words) for row in table.rows], table.words) for table in section.tables
    )
    explained = f'<p class="soft">{escape(section.explained)}</p>' if section.explained else ""
    shown = ""
    if section.svg:
        data = b64encode(section.svg.encode()).decode()
        shown = f'<img class="figure" alt="{escape(section.title)}" src="data:image/svg+xml;base64,{data}">'
    return f'<h2>{escape(section.title)}</h2>\n<div class="small">{tables}</div>\n{explained}{shown}\n'


def _settings(report: Report) -> str:
    if not report.settings:
        return ""
    rows = "".join(
        f'<tr><th scope="row" class="word">{escape(name)}</th><td>{escape(str(value))}</td></tr>'
        for name, value in report.settings.items()
    )
    table = f"<table><tbody>{rows}</tbody></table>"
    return f'<h2>How it was made</h2>\n<div class="small settings">{table}</div>\n'


def _notes(report: Report) -> str:
    lines = "".join(f"<li>{escape(note)}</li>" for note in report.notes)
    return f"<h2>Notes</h2>\n<ul>{lines}</ul>\n" if lines else ""


def _row(cells: Sequence[str], words: int) -> str:
    """A row of escaped cells, of which the first `words` are words and the rest figures."""
    shown = (
        f'<td class="word">{escape(c)}</td>' if i < words else f"<td>{escape(c)}</td>" for i, c in enumerate(cells)
    )
    return f"<tr>{''.join(shown)}</tr>"


def _table(columns: Iterable[str], rows: Sequence[str], words: int) -> str:
    word = ' class="word"'
    heads = "".join(
        f'<th scope="col"{word if i < words else ""}>{escape(column)}</th>' for i, column in enumerate(columns)
    )
    body = "\n".join(rows)
    table = f"<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table>\n{table}\n</table></div>'
