"""Tables and sections of a report, laid out elsewhere for pages, Markdown and the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Graphic:
    """A figure as the text of an SVG element, with its caption."""

    svg: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A text; strong: bold. marks: signs right after it. note: smaller, beside it."""

    text: str
    strong: bool = False
    marks: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts with the names of their columns; the first `words` columns are words, the others numbers.

    details: what each row opens to, or empty. A table with details is sorted by a click on a column's name.
    """

    columns: Sequence[str | Cell]
    rows: Sequence[Sequence[str | Cell]]
    words: int = 1
    details: Sequence["Detail"] = ()

    @property
    def signs(self) -> int:
        """The most signs after a number."""
        return max((len(each.marks) for row in self.rows for each in row if isinstance(each, Cell)), default=0)


@dataclass(frozen=True, slots=True)
class Detail:
    """The table that a row opens to."""

    title: str
    table: Table


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with tables, their explanation, and a figure as the text of an SVG file (empty: none).

    graphics: figures drawn into the page, which come first. folded: the tables open by a click. see: the title of a
    section with more. lead: a sentence before the tables; lines: a list after the explanation.
    """

    title: str
    tables: Sequence[Table] = ()
    explained: str = ""
    svg: str = ""
    lead: str = ""
    lines: Sequence[str] = ()
    graphics: Sequence[Graphic] = ()
    folded: bool = False
    see: str = ""


def cell(content: str | Cell) -> Cell:
    """Return a text as a cell, and a cell as it is."""
    return Cell(content) if isinstance(content, str) else content
