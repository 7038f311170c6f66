"""Render templates: all text escaped, one style whose digest is in the policy, no script; also one page of a file."""

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from hardneg.doors.browse.browsed import Browsed
from hardneg.doors.browse.marks import Marks
from hardneg.doors.browse.query_page import query_page
from hardneg.doors.browse.texts import clean
from hardneg.store.atomic_write import replace_text

if TYPE_CHECKING:
    from jinja2 import Environment

_PIECES = re.compile(r"[^._/:-]*[._/:-]+|[^._/:-]+")
"""Of an id: letters and digits with the signs after them."""

QUERIES = 200
NEGATIVES = 20
"""Of each query, the first ones."""


def page(name: str, **content: Any) -> str:
    """One page from the template of a name."""
    return _environment().get_template(f"{name}.html.j2").render(content)


@cache
def style() -> str:
    """The one style of all pages."""
    return (files("hardneg.doors.browse") / "templates" / "style.css").read_text("utf-8")


def policy(forms: str) -> str:
    """A Content-Security-Policy without scripts or fetches; `forms`: the targets of forms."""
    digest = b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action {forms}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("hardneg.doors.browse"),
        autoescape=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breaks": breaks,
        "quoted": quoted,
        "figure": figure,
        "count": "{:,}".format,
        "percent": "{:.1%}".format,
    }
    environment.globals |= {"link": link, "style": Markup(style()), "bars": bars, "line": line}
    return environment


def breaks(name: str) -> Any:
    """An id that may be broken after punctuation, not inside words."""
    from markupsafe import Markup

    return Markup("<wbr>").join(_PIECES.findall(clean(name)))


def quoted(text: str) -> str:
    """An id as plain ASCII, whatever is in it; `unquote` reads it back."""
    return quote(text, safe="")


def link(path: str, **query: object) -> str:
    """An address of this server; None values are left out."""
    parameters = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def figure(value: float | None, digits: int = 4) -> str:
    """A score in a few digits; a dash for none."""
    return "–" if value is None else f"{value:.{digits}g}"


WIDTH, HEIGHT = 720.0, 220.0


def bars(counts: list[int]) -> list[dict[str, float]]:
    """Rectangles of a drawing of 720 x 220 for these counts, the highest as high as the drawing."""
    most, width = max(counts, default=0) or 1, WIDTH / max(1, len(counts))
    return [
        {"x": number * width + 1, "y": HEIGHT * (1 - n / most), "width": width - 2, "height": HEIGHT * n / most}
        for number, n in enumerate(counts)
    ]


def line(curve: list[tuple[float, float]]) -> str:
    """The points of a line in a drawing of 720 x 220: x from the first step to the last, y from 0 to the largest."""
    steps, values = [step for step, _ in curve], [value for _, value in curve]
    span, most = (max(steps) - min(steps)) or 1.0, max(1e-9, *values)
    return " ".join(f"{WIDTH * (s - steps[0]) / span:.1f},{HEIGHT * (1 - v / most):.1f}" for s, v in curve)


def export_page(browsed: Browsed, label: str, marks: Marks, target: Path, count: int = QUERIES) -> int:
    """Writes the first queries that have negatives in a list; returns how many there are.

    Memory: the page, about 40 kB a query.
    """
    ids = [query_id for query_id in browsed.search.query_ids if browsed.lists[label].count(query_id)][:count]
    shown = [query_page(browsed, query_id, label, marks.of(query_id)) for query_id in ids]
    content = page(
        "export",
        title=browsed.sources.title,
        label=label,
        negatives=NEGATIVES,
        shown=shown,
        total=len(browsed.search.query_ids),
        judges=browsed.sources.judges,
        policy=policy("'none'").replace("; frame-ancestors 'none'", ""),
    )
    replace_text(target, content)
    return len(shown)
