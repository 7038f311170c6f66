"""The web pages, without scripts, served to one reader on this machine or exported as static files."""

import hmac
import re
import secrets
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
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

from hardneg.plugin import errors
from hardneg_browse.browsed import PAGE, Browsed
from hardneg_browse.query_page import Survey, beginning, clean, query_page
from hardneg_browse.sources import Marks

_PIECES = re.compile(r"[^._/:-]*[._/:-]+|[^._/:-]+")
"""Pattern for the parts of an id. A part ends after its punctuation."""

QUERIES = 200
"""Maximum number of queries to export."""

HOST = "127.0.0.1"
_FETCHED = ("same-origin", "none")
FORM_BYTES = 1 << 16
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
"""The headers of every response, in addition to its Content-Security-Policy."""


@dataclass(frozen=True)
class Access:
    """Access control for a local server that requires a secret token. port: the server's port."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """URL of the first page, including the token."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def writing(self) -> str:
        """Token that a form must send to write marks, derived from the secret token."""
        return hmac.new(self.token.encode(), b"write", sha256).hexdigest()

    @property
    def cookie(self) -> str:
        """Set-Cookie header that stores the token. Scripts cannot read the cookie; other sites cannot send it."""
        return f"hardneg-{self.port}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def refusal(self, request: Request) -> str | None:
        """Return why a request must be refused, or None if it is allowed.

        A request needs this server's host name (against DNS rebinding), the token and, for a form, this site's origin.
        """
        headers, host = request.headers, request.headers.get("host", "")
        if host not in {f"{HOST}:{self.port}", f"localhost:{self.port}"}:
            return f"this page is only served at {HOST}"
        if request.method not in ("GET", "HEAD", "POST"):
            return "only GET, HEAD and POST are allowed"
        remembered = self._is_token(request.cookies.get(f"hardneg-{self.port}", ""))
        if not remembered and (request.method == "POST" or not self.entering(request)):
            return "the token is missing or wrong; open the full address that the command printed"
        if request.method == "POST" and (
            headers.get("origin") != f"http://{host}" or headers.get("sec-fetch-site", "same-origin") not in _FETCHED
        ):
            return "the form came from another page; nothing was written"
        return None

    def entering(self, request: Request) -> bool:
        """Return whether the address of a request contains the token."""
        return self._is_token(request.query_params.get("token", ""))

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


class Guard:
    """ASGI middleware that answers refused requests itself and adds headers to every response.

    policy: the Content-Security-Policy. refused: renders the page that gives a reason. entered: renders the page that
    redirects a reader who has opened the address with the token.
    """

    def __init__(self, app: Any, access: Access, policy: str, refused: Any, entered: Any) -> None:
        self._app, self._access = app, access
        self._headers = [*HEADERS, (b"content-security-policy", policy.encode())]
        self._refused, self._entered = refused, entered

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return
        request, answer = Request(scope), self._app
        if reason := self._access.refusal(request):
            answer = HTMLResponse(self._refused(reason), 403)
        elif request.method == "GET" and self._access.entering(request):
            answer = HTMLResponse(self._entered(), headers={"set-cookie": self._access.cookie})

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        await answer(scope, receive, sent)


def page(name: str, templates: Environment | None = None, **content: Any) -> str:
    """Return the page `name` as HTML, rendered with `content`. templates: by default, those of the server."""
    return (templates or _server_templates()).get_template(f"{name}.html.j2").render(content)


@cache
def style() -> str:
    """Return the style sheet of all pages."""
    return (files("hardneg_browse") / "templates" / "style.css").read_text("utf-8")


def policy(forms: str) -> str:
    """Return a Content-Security-Policy that forbids scripts and fetches. forms: where forms may be sent."""
    digest = b64encode(sha256(style().encode()).digest()).decode()
    return (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action {forms}; base-uri 'none'; "
        "frame-ancestors 'none'"
    )


@cache
def _server_templates() -> Environment:
    return _templates(link)


def _templates(link: Callable[..., str], **static: object) -> Environment:
    """Return the templates. link: returns the address of a page. static: values for exported pages, else empty."""
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
    environment.globals |= {"link": link, "style": Markup(style()), "static": static}
    return environment


def breaks(name: str) -> Markup:
    """Return an id with line breaks allowed after punctuation, not inside words."""
    return Markup("<wbr>").join(_PIECES.findall(clean(name)))


def link(path: str, **query: object) -> str:
    """Return the address of a path on this server with the query parameters that are not None."""
    parameters = {name: str(value) for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(parameters)}" if parameters else path


def figure(value: float | None) -> str:
    """Format a score with four significant digits; None becomes a dash."""
    return "–" if value is None else f"{value:.4g}"


_QUERY = 300


@dataclass
class Site:
    """The pages of `hardneg browse`, with the data they show, its survey, the reader's marks and the access control."""

    browsed: Browsed
    survey: Survey
    marks: Marks
    access: Access
    templates: Environment = field(default_factory=_server_templates)

    @property
    def pages(self) -> Mapping[str, Callable[[Mapping[str, str]], str | None]]:
        """Methods that render pages, by URL path. Each takes query parameters and returns HTML or None."""
        return {"/": self.queries, "/query": self.query, "/suspicious": self.suspicious, "/marks": self.marked}

    def queries(self, asked: Mapping[str, str]) -> str:
        """Render the search box and one page of matching queries. asked: parameters `words`, `page` and `list`."""
        words, label = asked.get("words", ""), self._label(asked)
        matches = self.browsed.search.page(words[:_QUERY], _number(asked.get("page", "1")))
        search, listed = self.browsed.search, self.browsed.lists[label]
        rows = [
            (query_id, beginning(search.texts[position]), listed.count(query_id), len(self.marks.of(query_id)))
            for position in matches.positions
            for query_id in [search.query_ids[position]]
        ]
        return self._page("queries", label, matches=matches, rows=rows, words=words)

    def query(self, asked: Mapping[str, str]) -> str | None:
        """Render one query, or return None if its id is unknown. asked: parameters `q` (the id) and `list`."""
        query_id, label = asked.get("q", ""), self._label(asked)
        if query_id not in self.browsed.positions:
            return None
        shown = query_page(self.browsed, query_id, label, self.marks.of(query_id))
        around = self._around(query_id)
        return self._page("query", label, shown=shown, around=around)

    def suspicious(self, asked: Mapping[str, str]) -> str:
        """Render one page of the most suspicious negatives of all queries. asked: parameters `page` and `list`."""
        label = self._label(asked)
        surveyed = self.survey.lists[label]
        worst = surveyed.most_suspicious()
        pages = max(1, -(-len(worst) // PAGE))
        number = min(_number(asked.get("page", "1")), pages)
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

    def marked(self, asked: Mapping[str, str]) -> str:
        """Render the list of all marks. asked: parameter `list`, the label of a list of negatives."""
        rows = [(query_id, beginning(self.browsed.text(query_id)), doc_id) for query_id, doc_id in self.marks.all()]
        return self._page("marks", self._label(asked), rows=rows)

    def mark(self, form: dict[str, str]) -> str | None:
        """Set or remove the mark that a form requests. Return the next address; None for an unknown query or document.

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
        """Return a response whose page shows only a message. status: the HTTP status."""
        return HTMLResponse(page("message", title=title, text=text), status)

    def _page(self, name: str, label: str, **content: Any) -> str:
        shown: dict[str, Any] = {
            "title": self.browsed.sources.title,
            "labels": list(self.browsed.lists),
            "label": label,
        }
        shown |= {"survey": self.survey, "writing": self.access.writing, "marks_file": str(self.marks.path)}
        return page(name, self.templates, site=self, here=name, **shown, **content)

    def _label(self, asked: Mapping[str, str]) -> str:
        labels = list(self.browsed.lists)
        return asked["list"] if asked.get("list") in labels else labels[0]

    def _around(self, query_id: str) -> tuple[str | None, str | None]:
        """Return the ids of the previous and the next query, None at the ends."""
        position, ids = self.browsed.positions[query_id], self.browsed.search.query_ids
        return ids[position - 1] if position else None, ids[position + 1] if position + 1 < len(ids) else None


def export_pages(browsed: Browsed, marks: Marks, folder: Path, count: int = QUERIES) -> int:
    """Export the first `count` queries with negatives as static HTML pages and return the number of exported queries.

    `folder` must exist. Its `index.html` is the first page. Each query takes about 40 kB per list of negatives.
    """
    part = replace(browsed, first=count)
    labels, asked = list(part.lists), list[tuple[str, str, dict[str, str]]]()
    known: set[str] = set()

    def file_of(path: str, **query: object) -> str:
        given = {key: str(value) for key, value in query.items() if value is not None}
        number = part.positions[given["q"]] + 1 if "q" in given else int(given.get("page", 1))
        name = f"{path.strip('/') or 'queries'}-{labels.index(given.get('list', labels[0])) + 1}-{number}.html"
        name = "index.html" if name == "queries-1-1.html" else name
        if name not in known:
            known.add(name)
            asked.append((name, path, given))
        return name

    csp = policy("'none'").replace("; frame-ancestors 'none'", "")
    templates = _templates(file_of, policy=csp, total=len(browsed.search.query_ids))
    site = Site(part, Survey(part).run(), marks, Access(0), templates)
    file_of("/")
    for name, path, given in asked:  # rendering a page adds the pages that it links to
        (folder / name).write_text(site.pages[path](given) or "", encoding="utf-8")
    return len(part.search.query_ids)


def application(site: Site) -> Guard:
    """Return the ASGI application that serves the pages and saves marks, wrapped in a `Guard`."""
    routes = [Route(path, _shows(make, site), methods=["GET"]) for path, make in site.pages.items()]
    pages = Starlette(routes=[*routes, Route("/mark", _marking(site), methods=["POST"])])
    return Guard(
        pages,
        site.access,
        policy("'self'"),
        lambda reason: page("message", title="Not shown", text=reason),
        lambda: page("entered", title=site.browsed.sources.title),
    )


def _shows(make: Callable[[Mapping[str, str]], str | None], site: Site) -> Callable[[Request], Response]:
    def answer(request: Request) -> Response:
        try:
            content = make(request.query_params)
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
            return site.message("Not written", "this form comes from another server; reload the page", 403)
        try:
            target = await run_in_threadpool(site.mark, form)
        except (errors.HardnegError, OSError) as error:
            return site.message("Not written", str(error), 500)
        if target is None:
            return site.message("Not written", "there is no such query or document", 404)
        return RedirectResponse(target, 303)

    return answer


def _number(text: str) -> int:
    """Parse an integer of up to nine digits; return 1 for any other text."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else 1


async def _form(request: Request) -> dict[str, str] | None:
    """Return the fields of a form, or None if it is too large or incomplete or has more than 20 fields."""
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
