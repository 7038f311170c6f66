"""Access to the page: one reader on this machine, who has the page's token."""

import hmac
import secrets
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from starlette.requests import Request
from starlette.responses import HTMLResponse

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

    def refusal(self, request: Request) -> str | None:
        """Why a request is refused, in a line; None where it may go on.

        A browser that was led here under another name shows that name as its host, and a form of another site shows
        that site as its origin; neither gets an answer.
        """
        headers, host = request.headers, request.headers.get("host", "")
        if host not in {f"{HOST}:{self.port}", f"localhost:{self.port}"}:
            return f"this page is for {HOST} alone"
        if request.method not in ("GET", "HEAD", "POST"):
            return "this page is read with GET and marked with POST"
        remembered = self._is_token(request.cookies.get(f"hardneg-{self.port}", ""))
        if not remembered and (request.method == "POST" or not self.entering(request)):
            return "open the whole address that the command printed: its token is missing or is another one's"
        if request.method == "POST" and (
            headers.get("origin") != f"http://{host}" or headers.get("sec-fetch-site", "same-origin") not in _FETCHED
        ):
            return "another page has sent this; nothing was written"
        return None

    def entering(self, request: Request) -> bool:
        """Whether an address carries the token."""
        return self._is_token(request.query_params.get("token", ""))

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self.token.encode())


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
