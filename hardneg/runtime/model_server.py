"""Requests to a model's server: retried while it may help, given up at a deadline; its key is never shown.

For plugins, which depend on httpx; nothing else here needs it.
"""

import json
import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event, Thread
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from hardneg.records.errors import ModelError

if TYPE_CHECKING:
    import httpx

_PASSING = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may succeed."""
_REFUSED = dict.fromkeys((401, 403), "the server takes no request with this key: set the variable that `key` names")
_FIRST_WAIT, _LONGEST_WAIT, _SOON = 0.5, 30.0, 5.0  # seconds
_SCHEMES = frozenset(("http", "https"))
_INSTANT = 0.001  # seconds: a timeout must be above 0
_GRACE = 0.25  # seconds in which the client's own timeout says what is wrong
_DOUBLED = 10  # times at most that the wait is
_SHOWN = 200  # characters
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class _Passing(Exception):
    """What may be otherwise at the next attempt; after: the seconds that the server asks to wait."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


@dataclass(frozen=True)
class Endpoint:
    """Where to ask and with what.

    url: of the server, before the paths. key: the API key or None. said: fields of every request, with `model`.
    timeout: seconds in which the server must begin to answer, and go on. deadline: seconds for a request with all its
    attempts. connections: requests under way at a time.
    """

    url: str
    key: str | None
    said: Mapping[str, Any]
    timeout: float
    deadline: float
    connections: int


@dataclass
class _Request:
    """A request with all its attempts; end: the moment at which it is given up."""

    path: str
    body: Mapping[str, Any]
    most: int
    end: float
    attempts: int = 1


def check_address(url: str, example: str) -> None:
    """Refuses what is no address of a server, or holds a secret.

    Raises:
        ValueError: it is no URL of http or https, or it has a user, a key or a query string.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # such as brackets that are not closed
        parts = urlsplit("")
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ValueError(f"url: {url!r} is no address: give it as {example}")
    if parts.username or parts.password or parts.query:
        raise ValueError("url: no user, key or question may stand in it: name a variable that holds a key in `key`")


def key_of(model: str, variable: str | None) -> str | None:
    """The API key that an environment variable holds; None where none is named.

    Raises:
        ModelError: it holds none, or what no header can carry.
    """
    if variable is None:
        return None
    if not (key := os.environ.get(variable, "").strip()):
        raise ModelError(f"model {model!r}: no API key: set the environment variable {variable}")
    if not (key.isascii() and key.isprintable()):
        reason = f"the environment variable {variable} has characters that no HTTP header takes"
        raise ModelError(f"model {model!r}: {reason}: set it to the API key alone")
    return key


class ModelServer:
    """Asks one server; several threads may use it."""

    def __init__(self, endpoint: Endpoint) -> None:
        import httpx

        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        most = endpoint.connections
        limits = httpx.Limits(max_connections=most, max_keepalive_connections=most)
        self.endpoint = endpoint
        self._warned = False
        self._http = httpx.Client(headers=headers, timeout=endpoint.timeout, limits=limits)

    def post(self, path: str, body: Mapping[str, Any], mebibytes: int, ended: Event | None = None) -> bytes:
        """The server's answer to a request with the fields of `endpoint.said` and `body`.

        Attempts come at growing and random intervals, and not before the server's `Retry-After`; none begins once
        `ended` is set. mebibytes: that an answer may have.

        Raises:
            ModelError: the server refuses, answers at more length, or not within the deadline.
        """
        end, ended = time.monotonic() + self.endpoint.deadline, ended or Event()
        request = _Request(path, {**self.endpoint.said, **body}, mebibytes << 20, end)
        while not ended.is_set():
            try:
                return self._attempt(request)
            except _Passing as error:
                ended.wait(self._pause(error, request))
                request.attempts += 1
        raise self.error("another request has failed")

    def reach(self) -> None:
        """Asks for the list of models. Raises ModelError where nothing answers, or not to this key."""
        import httpx

        soon, url = min(_SOON, self.endpoint.timeout), f"{self.endpoint.url}/models"
        try:
            answer = _within(soon, lambda: self._http.get(url, timeout=soon))
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.error(f"no answer ({self._reason(error)}): start the server, or give another url") from None
        if answer.status_code in _REFUSED:
            raise self.error(f"status {answer.status_code}; {_REFUSED[answer.status_code]}")

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

    def error(self, reason: str) -> ModelError:
        """An error that names the model and where it is; without the key."""
        return ModelError(f"model {self.endpoint.said['model']!r} at {self.endpoint.url}: {self.without_key(reason)}")

    def without_key(self, text: str) -> str:
        """The text without the key, which a server may repeat."""
        return text.replace(self.endpoint.key, "(the key)") if self.endpoint.key else text

    def _pause(self, error: _Passing, request: _Request) -> float:
        """The seconds until the next attempt. Raises ModelError where none is left before the deadline."""
        longest = min(_FIRST_WAIT * 2.0 ** min(request.attempts - 1, _DOUBLED), _LONGEST_WAIT)
        pause = max(error.after, random.uniform(0.5, 1.0) * longest)
        if time.monotonic() + pause > request.end:
            attempts = f"{request.attempts} attempt{'s' if request.attempts > 1 else ''}"
            reason = f"given up after {attempts} in {self.endpoint.deadline:g} s"
            raise self.error(f"{reason}; the last one: {error}") from None
        warned, self._warned = self._warned, True
        again = f"asked again in {pause:.1f} s" if warned else f"asked again for up to {self.endpoint.deadline:g} s"
        level = logging.INFO if warned else logging.WARNING
        _log.log(level, "%s: %s; %s", self.endpoint.url, self.without_key(str(error)), again)
        return pause

    def _attempt(self, request: _Request) -> bytes:
        left = max(request.end - time.monotonic(), _INSTANT)
        try:
            return _within(left, lambda: self._exchange(request, left))
        except TimeoutError:
            raise _Passing("the answer did not begin") from None

    def _exchange(self, request: _Request, left: float) -> bytes:
        import httpx

        url = f"{self.endpoint.url}{request.path}"
        try:
            with self._http.stream(
                "POST", url, json=request.body, timeout=min(self.endpoint.timeout, left)
            ) as response:
                content = self._read(response, request)
        except httpx.TransportError as error:
            raise _Passing(self._reason(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.error(self._reason(error)) from None
        if response.status_code != 200:
            line = self._shown(_first_line(self.without_key(content.decode("utf-8", "replace"))))
            reason = f"status {response.status_code}{f': {line}' if line else ''}"
            if response.status_code in _PASSING:
                raise _Passing(reason, _seconds(response.headers.get("Retry-After"), response.headers.get("Date")))
            raise self.error("; ".join(filter(None, (reason, _REFUSED.get(response.status_code)))))
        return content

    def _read(self, response: "httpx.Response", request: _Request) -> bytes:
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > request.most:
                raise self.error(f"an answer of more than {request.most >> 20} MiB")
            if time.monotonic() > request.end:
                raise _Passing("the answer did not end")
        return bytes(content)

    def _shown(self, text: str) -> str:
        """The beginning; the key goes first, so that no part of it is left where it is cut."""
        return self.without_key(text)[:_SHOWN]

    def _reason(self, error: Exception) -> str:
        return self._shown(" ".join(f"{type(error).__name__}: {error}".split()))


def _within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """The result of work in a thread of its own; its timeouts of reads bound no server that drips its headers.

    Raises:
        TimeoutError: it has not ended; it is left alone.
    """
    result = Future[_Result]()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return result.result(seconds + _GRACE)


def _first_line(text: str) -> str:
    """The message in a body, in printable characters: `error.message`, `message`, `detail`, or the line itself."""
    try:
        body = json.loads(text)
        error = body.get("error", body.get("message", body.get("detail", text)))
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError, RecursionError):
        pass
    line = next(iter(text.strip().splitlines()), "")
    return "".join(character for character in line if character.isprintable())


def _seconds(header: str | None, date: str | None = None) -> float:
    """The seconds of `Retry-After`: a number, or a date by the server's own clock (`Date`)."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        pass
    wanted = _moment(header)
    now = _moment(date) or time.time()
    return 0.0 if wanted is None else max(0.0, wanted - now)


def _moment(date: str | None) -> float | None:
    try:
        return parsedate_to_datetime(date or "").timestamp()
    except (ValueError, TypeError):
        return None
