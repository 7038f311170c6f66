"""Tables and sections of a report, for pages, Markdown and the terminal, and formats of numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hardneg.evaluation.intervals import Interval


@dataclass(frozen=True, slots=True)
class Graphic:
    """A figure as the text of an SVG element, with its caption."""

    svg: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """The text of a cell. strong: whether the text is bold. marks: signs after the text. note: smaller text below."""

    text: str
    strong: bool = False
    marks: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of texts with the names of their columns; the first `words` columns contain words, the others numbers.

    details: what each row shows when it is opened, or empty. A click on a column's name sorts a table with details.
    """

    columns: Sequence[str | Cell]
    rows: Sequence[Sequence[str | Cell]]
    words: int = 1
    details: Sequence["Detail"] = ()

    @property
    def signs(self) -> int:
        """The maximum number of marks that follow a number in a cell."""
        return max((len(each.marks) for row in self.rows for each in row if isinstance(each, Cell)), default=0)


@dataclass(frozen=True, slots=True)
class Detail:
    """The table shown when a row is opened, and the title to click."""

    title: str
    table: Table


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a report: a heading, tables, and an explanation of the tables.

    lead: a sentence at the start. graphics: figures drawn into the page, before the tables. lines: a list after the
    explanation. svg: a last figure as the text of an SVG file, or empty.
    """

    title: str
    tables: Sequence[Table] = ()
    explained: str = ""
    svg: str = ""
    lead: str = ""
    lines: Sequence[str] = ()
    graphics: Sequence[Graphic] = ()


def cell(content: str | Cell) -> Cell:
    """Return a string as a cell, and a cell unchanged."""
    return Cell(content) if isinstance(content, str) else content


def number(value: float) -> str:
    """Return the number with four decimal places, as papers print it."""
    return f"{value:.4f}"


def signed(value: float) -> str:
    """Return the number with a sign, a true minus if negative, and four decimal places."""
    return f"{value:+.4f}".replace("-", "−")


def p_value(value: float) -> str:
    """Return the p value with three decimal places, or `< 0.001`."""
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def equation(name: str, value: float) -> str:
    """Return a p value and its name as an equation, such as `p = 0.012`, or `p < 0.001`."""
    shown = p_value(value)
    return f"{name} {shown}" if shown.startswith("<") else f"{name} = {shown}"


def bounds(interval: "Interval | None", show: str = ".3f", empty: str = "–") -> str:
    """Return both ends of an interval in brackets, formatted with `show`; return `empty` without an interval."""
    return f"[{interval.low:{show}}, {interval.high:{show}}]".replace("-", "−") if interval else empty


def difference(value: float, interval: "Interval | None") -> str:
    """Return a difference of means, with its 95% interval if there is one."""
    bounded = within(interval, -1.0)
    ends = f", 95% interval {bounded.low:+.3f} to {bounded.high:+.3f}".replace("-", "−") if bounded else ""
    return f"{signed(value)}{ends}"


def within(interval: "Interval | None", low: float, high: float = 1.0) -> "Interval | None":
    """Return an interval clipped to the range of possible means, `low` to `high`; None without an interval.

    An interval by Student's t may exceed this range; clipping keeps its coverage, as no mean lies outside.
    """
    return interval and replace(interval, low=max(interval.low, low), high=min(interval.high, high))
