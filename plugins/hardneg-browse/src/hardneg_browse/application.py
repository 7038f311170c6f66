"""The pages of the server by address, the address that writes a mark, and one page of a file; no script in any."""

import hmac
import re
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from hardneg.plugin import errors, stores
from hardneg_browse.browsed import PAGE, Browsed
from hardneg_browse.guard import FORM_BYTES, Access, Guard
from hardneg_browse.marks import Marks
from hardneg_browse.query_page import beginning, clean, query_page
from hardneg_browse.survey import Survey

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
    return (files("hardneg_browse") / "templates" / "style.css").read_text("utf-8")


def policy(forms: str) -> str:
    """A Content-Security-Policy without scripts or fetches; `forms`: the targets of forms."""
    digest = b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action {forms}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hardneg_browse"),
        autoescape=True,
        finalize=lambda value: clean(value) if type(value) is str else value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breaks": breaks,
        "quoted": partial(quote, safe=""),  # an id as plain ASCII, whatever is in it
        "figure": figure,
        "count": "{:,}".format,
    }
    environment.globals |= {"link": link, "style": Markup(style())}
    return environment


def breaks(name: str) -> Markup:
    """An id that may be broken after punctuation, not inside words."""
    return Markup("<wbr>").join(_PIECES.findall(clean(name)))


def link(path: str, **query: object) -> str:
    """An address of this server; None values are left out."""
    parameters = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def figure(value: float | None) -> str:
    """A score in a few digits; a dash for none."""
    return "–" if value is None else f"{value:.4g}"


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
        policy=policy("'none'").replace("; frame-ancestors 'none'", ""),
    )
    stores.replace_text(target, content)
    return len(shown)


_QUERY = 300


@dataclass
class Site:
    """The state that all addresses of one server share."""

    browsed: Browsed
    survey: Survey
    marks: Marks
    access: Access

    def queries(self, request: Request) -> str:
        """The search box and a page of queries."""
        words, label = request.query_params.get("words", ""), self._label(request)
        matches = self.browsed.search.page(words[:_QUERY], _number(request.query_params.get("page", "1")))
        search, listed = self.browsed.search, self.browsed.lists[label]
        rows = [
            (query_id, beginning(search.texts[position]), listed.count(query_id), len(self.marks.of(query_id)))
            for position in matches.positions
            for query_id in [search.query_ids[position]]
        ]
        return self._page("queries", label, matches=matches, rows=rows, words=words)

    def query(self, request: Request) -> str | None:
        """Show one query; None for an unknown id."""
        query_id, label = request.query_params.get("q", ""), self._label(request)
        if query_id not in self.browsed.positions:
            return None
        shown = query_page(self.browsed, query_id, label, self.marks.of(query_id))
        around = self._around(query_id)
        return self._page("query", label, shown=shown, around=around)

    def suspicious(self, request: Request) -> str:
        """The most suspicious negatives of all queries."""
        label = self._label(request)
        surveyed = self.survey.lists[label]
        worst = surveyed.most_suspicious()
        pages = max(1, -(-len(worst) // PAGE))
        number = min(_number(request.query_params.get("page", "1")), pages)
        cut = worst[(number - 1) * PAGE : number * PAGE]
        beside = {  # the positive that a negative resembles most, or the query's first one
            (item.query_id, item.doc_id): item.alike or next(iter(self.browsed.positives_of(item.query_id, label)), "")
            for item in cut
        }
        wanted = [name for item in cut for name in (item.doc_id, beside[item.query_id, item.doc_id]) if name]
        documents = self.browsed.documents(list(dict.fromkeys(wanted)))
        texts = {doc_id: beginning(document.contents) for doc_id, document in documents.items()}
        rows = []
        for rank, item in enumerate(cut, (number - 1) * PAGE + 1):
            query, marked = beginning(self.browsed.text(item.query_id)), item.doc_id in self.marks.of(item.query_id)
            positive = beside[item.query_id, item.doc_id]
            rows.append((rank, item, query, texts.get(item.doc_id, ""), marked, positive, texts.get(positive, "")))
        shown = {"rows": rows, "surveyed": surveyed, "number": number, "pages": pages, "known": len(worst)}
        return self._page("suspicious", label, **shown)

    def marked(self, request: Request) -> str:
        """All marks."""
        rows = [(query_id, beginning(self.browsed.text(query_id)), doc_id) for query_id, doc_id in self.marks.all()]
        return self._page("marks", self._label(request), rows=rows)

    def mark(self, form: dict[str, str]) -> str | None:
        """Write the mark of a form and return the next address; None for an unknown query or document.

        Raises:
            HardnegError: the file of marks cannot be written.
        """
        query_id, doc_id = unquote(form.get("q", "")), unquote(form.get("d", ""))
        if self.browsed.collection is None:
            known = bool(doc_id) and not doc_id.isspace()
        else:
            known = bool(doc_id) and int(self.browsed.collection.corpus.rows([doc_id])[0]) >= 0
        if query_id not in self.browsed.positions or not known:
            return None
        self.marks.set(query_id, doc_id, form.get("relevant") == "1")
        if form.get("back") == "marks":
            return "/marks"
        label = form["list"] if form.get("list") in self.browsed.lists else None
        number = _number(form.get("page", "1"))
        if form.get("back") == "suspicious":
            return link("/suspicious", list=label, page=number)
        return link("/query", q=query_id, list=label) + f"#negative-{number}"

    def message(self, title: str, text: str, status: int) -> Response:
        """A page with one message."""
        return HTMLResponse(page("message", title=title, text=text), status)

    def _page(self, name: str, label: str, **content: Any) -> str:
        shown: dict[str, Any] = {
            "title": self.browsed.sources.title,
            "labels": list(self.browsed.lists),
            "label": label,
        }
        shown |= {"survey": self.survey, "writing": self.access.writing, "marks_file": str(self.marks.path)}
        return page(name, site=self, here=name, **shown, **content)

    def _label(self, request: Request) -> str:
        return _one_of(list(self.browsed.lists), request.query_params.get("list"))

    def _around(self, query_id: str) -> tuple[str | None, str | None]:
        """The queries before and after one."""
        position, ids = self.browsed.positions[query_id], self.browsed.search.query_ids
        return ids[position - 1] if position else None, ids[position + 1] if position + 1 < len(ids) else None


def application(site: Site) -> Guard:
    """The application of ASGI, guarded."""
    shown = {"/": site.queries, "/query": site.query, "/suspicious": site.suspicious, "/marks": site.marked}
    routes = [Route(path, _shows(make, site), methods=["GET"]) for path, make in shown.items()]
    pages = Starlette(routes=[*routes, Route("/mark", _marking(site), methods=["POST"])])
    return Guard(
        pages,
        site.access,
        policy("'self'"),
        lambda reason: page("message", title="Not shown", text=reason),
        lambda: page("entered", title=site.browsed.sources.title),
    )


def _shows(make: Callable[[Request], str | None], site: Site) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            content = make(request)
        except errors.HardnegError as error:
            return site.message("Not shown", str(error), 500)
        if content is None:
            return site.message("Not found", "there is no such query", 404)
        return HTMLResponse(content)

    return answer


def _marking(site: Site) -> Any:
    async def answer(request: Request) -> Response:
        form = await _form(request)
        own = site.access.writing.encode()  # the token of this server's forms
        if form is None or not hmac.compare_digest(form.get("token", "").encode(), own):
            return site.message("Not written", "this form is not of this server; open the page again", 403)
        try:
            target = await run_in_threadpool(site.mark, form)
        except (errors.HardnegError, OSError) as error:
            return site.message("Not written", str(error), 500)
        if target is None:
            return site.message("Not written", "there is no such query or document", 404)
        return RedirectResponse(target, 303)

    return answer


def _one_of(names: list[str], wanted: str | None) -> str:
    return wanted if wanted in names else names[0]


def _number(text: str) -> int:
    """A whole number of a few digits; 1 for anything else."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1


async def _form(request: Request) -> dict[str, str] | None:
    """The fields of a form; None of one that is too large, has too many, or whose sender has left."""
    body = b""
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > FORM_BYTES:
                return None
    except ClientDisconnect:
        return None
    try:
        fields = parse_qs(body.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=20)
    except ValueError:
        return None
    return {name: values[0] for name, values in fields.items()}
