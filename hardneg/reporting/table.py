"""What every table of a report, of a figure's side and of the terminal is: words, then figures."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts below the names of their columns; the first `words` columns are words, the rest figures."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 1


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of a report, with tables, what explains them, and a figure as SVG text (empty: none)."""

    title: str
    tables: Sequence[Table]
    explained: str = ""
    svg: str = ""
