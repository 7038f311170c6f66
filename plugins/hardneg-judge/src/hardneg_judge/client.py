"""Requests to a chat server: tried again while it may help, given up at a deadline; the key is never told."""

import json
import logging
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any

import httpx

from hardneg.errors import ModelError
from hardneg_judge.journal import Answer

_PASSING = frozenset((408, 409, 425, 429, 500, 502, 503, 504, 529))
"""Statuses after which the same request may succeed."""
_REFUSED = dict.fromkeys((401, 403), "the server takes no request with this key: set the variable that `key` names")
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0  # seconds
_MOST_BYTES = 4 << 20  # of an answer
_SHOWN = 200
_log = logging.getLogger(__name__)


class _Later(Exception):
    """What may be otherwise at the next attempt; after: the seconds that the server asks to wait."""

    def __init__(self, told: str, after: float = 0.0) -> None:
        super().__init__(told)
        self.after = after


@dataclass(frozen=True)
class Endpoint:
    """Where to ask and with what.

    url: what `/chat/completions` is put behind. key: the API key; None is none. said: what a request says beside the
    message. timeout: seconds in which the server must begin to answer, and go on. deadline: seconds for a request with
    all its attempts. connections: requests under way at a time.
    """

    url: str
    key: str | None
    said: Mapping[str, Any]
    timeout: float
    deadline: float
    connections: int


class ChatClient:
    """Asks one model of one server; several threads may use it."""

    def __init__(self, endpoint: Endpoint) -> None:
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        most = endpoint.connections
        limits = httpx.Limits(max_connections=most, max_keepalive_connections=most)
        self._endpoint = endpoint
        self._http = httpx.Client(headers=headers, timeout=endpoint.timeout, limits=limits)

    def ask(self, message: str, ended: Event | None = None) -> Answer:
        """What the model says to one message.

        Attempts come at growing and random intervals, and not before the server's `Retry-After`; none begins once
        `ended` is set.

        Raises:
            ModelError: the server refuses, answers in another form, or not within the deadline.
        """
        end, attempt, ended = time.monotonic() + self._endpoint.deadline, 1, ended or Event()
        while not ended.is_set():
            try:
                return self._attempt(message, end)
            except _Later as error:
                ended.wait(self._pause(error, attempt, end))
                attempt += 1
        raise self._error("another request has failed")

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

    def _pause(self, error: _Later, attempt: int, end: float) -> float:
        """The seconds until the next attempt. Raises ModelError where none is left before the deadline."""
        longest = min(_FIRST_WAIT * 2.0 ** min(attempt - 1, 10), _LONGEST_WAIT)
        pause = max(error.after, random.uniform(0.5, 1.0) * longest)
        if time.monotonic() + pause > end:
            attempts = f"{attempt} attempt{'s' if attempt > 1 else ''} in {self._endpoint.deadline:g} s"
            raise self._error(f"given up after {attempts}; the last one: {error}") from None
        _log.info("%s: %s; asked again in %.1f s", self._endpoint.url, self._safe(str(error)), pause)
        return pause

    def _attempt(self, message: str, end: float) -> Answer:
        body = {**self._endpoint.said, "messages": [{"role": "user", "content": message}]}
        try:
            with self._http.stream("POST", f"{self._endpoint.url}/chat/completions", json=body) as response:
                content = self._read(response, end)
        except httpx.TransportError as error:
            raise _Later(self._reason(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._error(self._reason(error)) from None
        if response.status_code != 200:
            self._refuse(response, content)
        return self._answer(content)

    def _read(self, response: httpx.Response, end: float) -> bytes:
        content = bytearray()
        for part in response.iter_bytes():
            content += part
            if len(content) > _MOST_BYTES:
                raise self._error(f"an answer of more than {_MOST_BYTES >> 20} MiB")
            if time.monotonic() > end:
                raise _Later("the answer did not end")
        return bytes(content)

    def _refuse(self, response: httpx.Response, content: bytes) -> None:
        line = self._safe(_first_line(self._safe(content.decode("utf-8", "replace"))))[:_SHOWN]
        told = f"status {response.status_code}{f': {line}' if line else ''}"
        if response.status_code in _PASSING:
            raise _Later(told, _seconds(response.headers.get("Retry-After")))
        raise self._error("; ".join(filter(None, (told, _REFUSED.get(response.status_code)))))

    def _answer(self, content: bytes) -> Answer:
        try:
            found = json.loads(content)
            text = found["choices"][0]["message"]["content"]
            usage = found.get("usage") or {}
            tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            told = "the answer is not as /v1/chat/completions has it: no JSON with `choices[0].message.content`"
            raise self._error(told) from None
        read, written = (count if type(count) is int and count >= 0 else -1 for count in tokens)
        return Answer(self._safe(text) if isinstance(text, str) else "", read, written)

    def _error(self, told: str) -> ModelError:
        return ModelError(f"model {self._endpoint.said['model']!r} at {self._endpoint.url}: {self._safe(told)}")

    def _safe(self, text: str) -> str:
        """The text without the key, which a server may repeat."""
        return text.replace(self._endpoint.key, "(the key)") if self._endpoint.key else text

    def _reason(self, error: Exception) -> str:
        return self._safe(" ".join(f"{type(error).__name__}: {error}".split()))[:_SHOWN]


def _first_line(text: str) -> str:
    """What a body says first, in printable characters: `error.message`, or the line itself."""
    try:
        error = json.loads(text)["error"]
        text = str(error["message"] if isinstance(error, dict) else error)
    except (ValueError, TypeError, LookupError, RecursionError):
        pass
    line = next(iter(text.strip().splitlines()), "")
    return "".join(character for character in line if character.isprintable())


def _seconds(header: str | None) -> float:
    """What `Retry-After` asks for: seconds, or a date."""
    try:
        return max(0.0, float(header or 0))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header or "").timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
