"""What a notebook shows of a result: small tables whose texts are escaped."""

from collections.abc import Iterable
from html import escape

from hardneg.report.table import Graphic, Section, Table, cell

_LONGEST = 160
ROWS = 5
"""How many rows of a result are shown."""


def html_table(table: Table) -> str:
    """A table with a head; the first `words` columns are to the left, figures to the right; long texts are cut."""
    head = "".join(f"<th>{escape(cell(name).text)}</th>" for name in table.columns)
    rows = "".join(f"<tr>{''.join(_cells(row, table.words))}</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def html_section(section: Section) -> str:
    """The tables, what explains them, and the figure, which hardneg has drawn."""
    lead, *texts = (
        f"<p>{escape(text)}</p>" if text else "" for text in (section.lead, section.explained, *section.lines)
    )
    return lead + "".join([*map(html_table, section.tables), *texts]) + section.svg


def html_graphics(graphics: Iterable[Graphic]) -> str:
    """Figures of the report, each with its caption, in colours that light and dark notebooks show."""
    each = "".join(f"<figure>{one.svg}<figcaption>{escape(one.caption)}</figcaption></figure>" for one in graphics)
    return f'<div style="max-width: 46rem">{each}</div>'


def caption(text: str, table: Table) -> str:
    """A line, and a table below it."""
    return f"<p>{escape(text)}</p>{html_table(table)}"


def cut(text: str) -> str:
    """As much of a text as a cell shows."""
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


def _cells(row: Iterable[object], words: int) -> Iterable[str]:
    for column, content in enumerate(row):
        shown_cell = cell(content)  # type: ignore[arg-type]
        text = escape(cut(shown_cell.text) + shown_cell.marks)
        shown = f"<b>{text}</b>" if shown_cell.strong else text
        shown += f"<br><small>{escape(shown_cell.note)}</small>" if shown_cell.note else ""
        yield f'<td style="text-align:{"left" if column < words else "right"}">{shown}</td>'
