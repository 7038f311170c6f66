"""Access to the page: one reader on this machine, who has the page's token."""

import hmac
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

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
"""Of every answer, beside the policy of its content."""


@dataclass(frozen=True)
class Access:
    """The secret of one server. port: where it listens; token: the end of its address."""

    port: int
    token: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """The address to open."""
        return f"http://{HOST}:{self.port}/?token={self.token}"

    @property
    def writing(self) -> str:
        """The token of forms that write; it cannot be derived from the cookie."""
        return hmac.new(self.token.encode(), b"write", sha256).hexdigest()

    @property
    def cookie(self) -> str:
        """The header that remembers a reader; scripts do not see it, and other sites cannot have it sent."""
        return f"hardneg-{self.port}={self.token}; Path=/; HttpOnly; SameSite=Strict"

    def refusal(self, method: str, headers: dict[str, str], query: str) -> str | None:
        """Why a request is refused, in a line; None where it may go on.

        A browser that was led here under another name shows that name as its host, and a form of another site shows
        that site as its origin; neither gets an answer.
        """
        hosts = {f"{HOST}:{self.port}", f"localhost:{self.port}"}
        host = headers.get("host", "")
        if host not in hosts:
            return f"this page is for {HOST} alone"
        if method not in ("GET", "HEAD", "POST"):
            return "this page is read with GET and marked with POST"
        if not self.remembered(headers) and (method == "POST" or not self.entering(query)):
            return "open the whole address that the command printed: its token is missing or is another one's"
        if method == "POST" and (
            headers.get("origin") != f"http://{host}" or headers.get("sec-fetch-site", "same-origin") not in _FETCHED
        ):
            return "another page has sent this; nothing was written"
        return None

    def entering(self, query: str) -> bool:
        """Whether an address carries the token."""
        token = parse_qs(query).get("token", [""])[0]
        return hmac.compare_digest(token.encode(), self.token.encode())

    def remembered(self, headers: dict[str, str]) -> bool:
        """Whether the reader has entered before."""
        sent = (part.strip().partition("=") for part in headers.get("cookie", "").split(";"))
        values = [value.strip('"') for name, _, value in sent if name == f"hardneg-{self.port}"]
        return any(hmac.compare_digest(value.encode(), self.token.encode()) for value in values)


class Guard:
    """An ASGI middleware: it answers refused requests itself, and adds headers to every answer.

    policy: the Content-Security-Policy of the pages. refused: renders the reason; entered: the page after
    entering with the token, which redirects.
    """

    def __init__(self, app: Any, access: Access, policy: str, refused: Any, entered: Any) -> None:
        self._app, self._access = app, access
        self._headers = [*HEADERS, (b"content-security-policy", policy.encode())]
        self._refused, self._entered = refused, entered

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answers one request."""
        if "method" not in scope:
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode("latin-1")
        if reason := self._access.refusal(scope["method"], headers, query):
            await self._answer(send, 403, self._refused(reason))
        elif scope["method"] == "GET" and self._access.entering(query):
            await self._answer(send, 200, self._entered(), (b"set-cookie", self._access.cookie.encode()))
        else:

            async def sent(message: Any) -> None:
                if message["type"] == "http.response.start":
                    message = {**message, "headers": [*message["headers"], *self._headers]}
                await send(message)

            await self._app(scope, receive, sent)

    async def _answer(self, send: Any, status: int, page: str, *more: tuple[bytes, bytes]) -> None:
        body = page.encode()
        own = [(b"content-type", b"text/html; charset=utf-8"), (b"content-length", str(len(body)).encode())]
        start = {"type": "http.response.start", "status": status, "headers": [*own, *more, *self._headers]}
        await send(start)
        await send({"type": "http.response.body", "body": body})
