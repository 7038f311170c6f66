"""Parts of a figure drawn into a page, as wide as the page, in letters that keep their size.

Horizontal positions are percent of the figure's width, vertical ones are pixels. Colours and letters are those of the
page, by the classes of its style sheet (`look`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

CONTROLS = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff"
"""Control characters, marks of writing direction and code points without a character, which no page may have."""

_CONTROLS = re.compile(f"[{CONTROLS}]")


@dataclass(frozen=True, slots=True)
class Graphic:
    """A figure as the text of an SVG element, with its caption."""

    svg: str
    caption: str = ""


def drawing(name: str, title: str, description: str, height: float, parts: Iterable[str]) -> str:
    """Return the element: `name` is unique in the page; screen readers read `title` and `description`."""
    head = f'<title id="{name}-title">{clean(title)}</title><desc id="{name}-desc">{clean(description)}</desc>'
    labels = f'role="img" aria-labelledby="{name}-title" aria-describedby="{name}-desc"'
    return f'<svg class="drawn" {labels} width="100%" height="{height:g}">{head}{"".join(parts)}</svg>'


def words(x: float, y: float, text: str, anchor: str = "start", look: str = "", small: str = "") -> str:
    """Return a text on its base line; `small` follows it on wide pages."""
    more = f'<tspan class="more"> {clean(small)}</tspan>' if small else ""
    return f'<text x="{_share(x)}" y="{y:g}" text-anchor="{anchor}"{_class(look)}>{clean(text)}{more}</text>'


def line(x: tuple[float, float], y: tuple[float, float], look: str) -> str:
    """Return a line from (x[0], y[0]) to (x[1], y[1])."""
    return f'<line x1="{_share(x[0])}" y1="{y[0]:g}" x2="{_share(x[1])}" y2="{y[1]:g}"{_class(look)}/>'


def box(x: tuple[float, float], y: float, height: float, look: str) -> str:
    """Return a rectangle from x[0] to x[1], `height` pixels down from `y`."""
    width = _share(max(0.0, x[1] - x[0]))
    return f'<rect x="{_share(x[0])}" y="{y:g}" width="{width}" height="{height:g}"{_class(look)}/>'


def dot(x: float, y: float, look: str, radius: float = 4.5) -> str:
    """Return a circle."""
    return f'<circle cx="{_share(x)}" cy="{y:g}" r="{radius:g}"{_class(look)}/>'


def clean(text: str) -> str:
    """Return a text for a page: escaped, on one line, control characters replaced."""
    return escape(_CONTROLS.sub("\ufffd", " ".join(text.split())))


def fitted(text: str, most: int = 30) -> str:
    """Return a name, its middle left out if it is long: both ends tell names apart."""
    kept = most - 1
    return text if len(text) <= most else f"{text[: kept - kept // 2]}…{text[-(kept // 2) :]}"


def _share(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") + "%"


def _class(look: str) -> str:
    return f' class="{look}"' if look else ""
