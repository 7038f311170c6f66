"""The report as Markdown, for a model card or a log."""

from collections.abc import Sequence

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
from hardneg.reporting.table import Section

_SPECIAL = str.maketrans({c: f"\\{c}" for c in "\\`*_[]<>|#~$&"} | {"\n": " ", "\r": " "})


def markdown(report: Report) -> str:
    """The whole page; what the user named is escaped, equal reports give equal text."""
    sections = [
        f"# {_text(report.title)}\n\n{_text(summary(report))}",
        _systems(report),
        _tests(report),
        _training(report),
        *(_section(section) for section in report.sections),
        _settings(report),
        _notes(report),
    ]
    return "\n\n".join(section.strip() for section in sections if section) + "\n"


def _systems(report: Report) -> str:
    if not report.systems:
        return ""
    tops = {metric: best(report, metric) for metric in report.metrics}
    rows = [
        [_text(system), *(_estimate(report, system, metric, top) for metric, top in tops.items())]
        for system in report.systems
    ]
    table = _table(["system", *map(_text, report.metrics)], rows, words=1)
    lines = "\n".join(f"- {_text(line)}" for line in legend(report))
    return f"## Effectiveness\n\nMeans over {counted(report.queries, 'query')}.\n\n{table}\n\n{lines}"


def _estimate(report: Report, system: str, metric: str, top: float | None) -> str:
    estimate = report.systems[system].get(metric)
    if estimate is None:
        return "–"
    shown = f"**{number(estimate.mean)}**" if estimate.mean == top else number(estimate.mean)
    ends = f" {_text(bounds(estimate.interval))}" if estimate.interval else ""
    return f"{shown}{_text(marks_of(report, system, metric))}{ends}"


def _tests(report: Report) -> str:
    if not report.comparisons:
        return ""
    rows = [[_text(cell) for cell in test_row(comparison)] for comparison in report.comparisons]
    return f"## Paired tests\n\n{_table(TEST_COLUMNS, rows, words=3)}\n\n{_text(TESTS_EXPLAINED)}"


def _training(report: Report) -> str:
    rows = [
        [_text(cell) for cell in (name, *cells)]
        for name, history in report.histories.items()
        for cells in training_rows(history)
    ]
    return f"## Training\n\n{_table(['model', *TRAINING_COLUMNS], rows, words=2)}" if rows else ""


def _section(section: Section) -> str:
    tables = "\n\n".join(
        _table(
            [_text(column) for column in table.columns],
            [[_text(cell) for cell in row] for row in table.rows],
            table.words,
        )
        for table in section.tables
    )
    return f"## {_text(section.title)}\n\n{tables}\n\n{_text(section.explained)}"


def _settings(report: Report) -> str:
    rows = [[_text(name), _text(str(value))] for name, value in report.settings.items()]
    return f"## How it was made\n\n{_table(['setting', 'value'], rows, words=2)}" if rows else ""


def _notes(report: Report) -> str:
    lines = "\n".join(f"- {_text(note)}" for note in report.notes)
    return f"## Notes\n\n{lines}" if lines else ""


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int) -> str:
    """A table whose first `words` columns are words and the rest figures."""
    rule = [":--" if i < words else "--:" for i in range(len(columns))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [columns, rule, *rows])


def _text(text: str) -> str:
    return text.translate(_SPECIAL)
