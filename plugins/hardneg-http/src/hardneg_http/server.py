"""Requests to a model server. They are retried until a deadline if that may help; the API key is never shown."""

import json
import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from threading import Event, Thread
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx

from hardneg.plugin import errors

_PASSING = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may succeed."""
_REFUSED = dict.fromkeys((401, 403), "; the server rejects this API key; check the environment variable named by `key`")
_FIRST_WAIT, _LONGEST_WAIT, _SOON = 0.5, 30.0, 5.0  # seconds
_GRACE = 0.25  # seconds in which the client's own timeout reports what is wrong
_SHOWN = 200  # characters
_Result = TypeVar("_Result")
_log = logging.getLogger(__name__)


class _Passing(Exception):
    """A failure that may not recur on the next attempt; after: the seconds to wait as requested by the server."""

    def __init__(self, reason: str, after: float = 0.0) -> None:
        super().__init__(reason)
        self.after = after


def check_address(url: str, example: str) -> None:
    """Check that `url` is the address of a server and contains no secret; `example` is shown in errors.

    Raises ValueError: it is not an http or https URL, or has a user, a key or a query string.
    """
    try:
        parts = urlsplit(url)
    except ValueError:  # such as brackets that are not closed
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"url: {url!r} is not an http or https address, such as {example}")
    if parts.username or parts.password or parts.query:
        raise ValueError("url: must not contain a user, key or query string; set `key` to an environment variable")


def key_of(model: str, variable: str | None) -> str | None:
    """Return the API key from an environment variable, or None if `variable` is None. Errors name `model`.

    Raises ModelError: the variable is not set, or cannot be sent as a header.
    """
    if variable is None:
        return None
    if not (key := os.environ.get(variable, "").strip()):
        raise errors.ModelError(f"model {model!r}: no API key; set the environment variable {variable}")
    if not (key.isascii() and key.isprintable()):
        reason = f"the environment variable {variable} has characters that are not allowed in an HTTP header"
        raise errors.ModelError(f"model {model!r}: {reason}; set it to the API key alone")
    return key


class ModelServer:
    """A thread-safe client of one model server."""

    def __init__(
        self, url: str, key: str | None, said: Mapping[str, Any], timeout: float, deadline: float, connections: int
    ) -> None:
        """Set the address and the limits; nothing is sent yet.

        url: the server's URL without a path. key: the API key or None. said: the fields of every request, including
        `model`. timeout: seconds to wait for the start of a response, and between its parts. deadline: seconds for a
        request with all its attempts. connections: the maximum number of simultaneous requests.
        """
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self.url, self.said, self._key, self._deadline = url, said, key, deadline
        self._timeout, self._warned = timeout, False
        self._http = httpx.Client(headers=headers, timeout=timeout, limits=limits)

    def post(self, path: str, body: Mapping[str, Any], mebibytes: int, ended: Event | None = None) -> bytes:
        """Post the fields of `said` and `body` as JSON to `path`, and return the body of the response.

        Retries follow at growing random intervals, but not before the server's `Retry-After`. Once `ended` is set, no
        attempt starts. mebibytes: the maximum size of a response.

        Raises ModelError: the server refuses, its response is too large, or it does not respond within the deadline.
        """
        end, ended, longest, attempts = time.monotonic() + self._deadline, ended or Event(), _FIRST_WAIT, 0
        while not ended.is_set():
            attempts += 1
            left = max(end - time.monotonic(), 0.001)
            try:
                return _within(left, partial(self._attempt, path, body, mebibytes, left, end))
            except _Passing as error:
                pause = max(error.after, random.uniform(0.5, 1.0) * longest)
                longest = min(2 * longest, _LONGEST_WAIT)
                if time.monotonic() + pause > end:
                    tried = f"{attempts} attempt{'s' if attempts > 1 else ''} in {self._deadline:g} s"
                    raise self.error(f"gave up after {tried}; last error: {error}") from None
                level, self._warned = logging.INFO if self._warned else logging.WARNING, True
                _log.log(level, "%s: %s; retrying in %.1f s", self.url, self.without_key(str(error)), pause)
                ended.wait(pause)
        raise self.error("cancelled, because another request failed")

    def reach(self) -> None:
        """Check the server with one short request. Raises ModelError if it does not answer or rejects the key."""
        try:
            soon = min(_SOON, self._timeout)
            status = _within(soon, partial(self._http.get, f"{self.url}/models", timeout=soon)).status_code
        except (_Passing, httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.error(f"no response ({self._reason(error)}); start the server, or set another url") from None
        if status in _REFUSED:
            raise self.error(f"status {status}{_REFUSED[status]}")

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def error(self, reason: str) -> errors.ModelError:
        """Return an error that names the model and its server, without the key."""
        return errors.ModelError(f"model {self.said['model']!r} at {self.url}: {self.without_key(reason)}")

    def without_key(self, text: str) -> str:
        """Return `text` with the API key replaced by `(the key)`, because servers may repeat it."""
        return text.replace(self._key, "(the key)") if self._key else text

    def _attempt(self, path: str, body: Mapping[str, Any], mebibytes: int, left: float, end: float) -> bytes:
        timeout, content = min(self._timeout, left), bytearray()
        try:
            with self._http.stream(
                "POST", f"{self.url}{path}", json={**self.said, **body}, timeout=timeout
            ) as response:
                for part in response.iter_bytes():
                    content += part
                    if len(content) > mebibytes << 20:
                        raise self.error(f"the response has more than {mebibytes} MiB")
                    if time.monotonic() > end:
                        raise _Passing("the response did not end")
        except httpx.TransportError as error:
            raise _Passing(self._reason(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self.error(self._reason(error)) from None
        if (status := response.status_code) == 200:
            return bytes(content)
        # the key is removed before the text is cut, so that no part of it is left
        line = self.without_key(_first_line(self.without_key(content.decode("utf-8", "replace"))))[:_SHOWN]
        reason = f"status {status}{f': {line}' if line else ''}"
        if status in _PASSING:
            raise _Passing(reason, _seconds(response.headers.get("Retry-After")))
        raise self.error(reason + _REFUSED.get(status, ""))

    def _reason(self, error: Exception) -> str:
        return self.without_key(" ".join(f"{type(error).__name__}: {error}".split()))[:_SHOWN]


def _within(seconds: float, work: Callable[[], _Result]) -> _Result:
    """Return the result of work in a thread, or raise _Passing; a server that drips headers outlasts read timeouts."""
    result = Future[_Result]()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    try:
        return result.result(seconds + _GRACE)
    except TimeoutError:
        raise _Passing("the response did not start") from None


def _first_line(text: str) -> str:
    """Return the message in a body, in printable characters: `error.message`, `message`, `detail`, or line one."""
    try:
        body = json.loads(text)
        error = body.get("error", body.get("message", body.get("detail", text)))
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError, RecursionError):
        pass
    line = next(iter(text.strip().splitlines()), "")
    return "".join(character for character in line if character.isprintable())


def _seconds(header: str | None) -> float:
    """Return the seconds of `Retry-After`; 0 if it is a date."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        return 0.0
