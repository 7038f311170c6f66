"""What every table of a page or of the terminal is: words, then figures; laid out elsewhere, once for each form."""

from collections.abc import Sequence
from dataclasses import dataclass

from hardneg.report.svg import Graphic


@dataclass(frozen=True, slots=True)
class Cell:
    """A text that stands out (strong), or has signs right after it (marks) or something smaller beside it (note)."""

    text: str
    strong: bool = False
    marks: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts below the names of their columns; the first `words` columns are words, the rest figures.

    details: none, or for each row what it opens to. Such a table is sorted by a click on a column's name.
    """

    columns: Sequence[str | Cell]
    rows: Sequence[Sequence[str | Cell]]
    words: int = 1
    details: Sequence["Detail"] = ()

    @property
    def signs(self) -> int:
        """The most signs that stand after a figure."""
        return max((len(each.marks) for row in self.rows for each in row if isinstance(each, Cell)), default=0)


@dataclass(frozen=True, slots=True)
class Detail:
    """What a row of a table opens to."""

    title: str
    table: Table


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with tables, what explains them, and a figure as the text of an SVG file (empty: none).

    graphics: figures drawn into the page, which come first. folded: the tables open by a click. see:
    the title of the section that has more. lead: said before the tables; lines: a list after what
    explains them.
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
    """A cell from its text, or as it is."""
    return Cell(content) if isinstance(content, str) else content
