"""Requests to an embedding server: tried again while it may help, given up at a deadline; the key is never told."""

import json
import logging
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from threading import Event
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

from hardneg.errors import ModelError
from hardneg_http.answer import BadAnswer, vectors_of

_PASSING = {408, 409, 425, 429, 500, 502, 503, 504, 529}
"""Statuses after which the same request may succeed."""
_OF_KEYS = dict.fromkeys((401, 403), "its key goes into the variable that `key` names")
_FIRST_WAIT, _LONGEST_WAIT, _SOON = 0.5, 30.0, 5.0  # seconds
_BASE_BYTES, _BYTES_A_TEXT = 1 << 20, 1 << 20  # of an answer
_SHOWN = 200
_log = logging.getLogger(__name__)


class _Passing(Exception):
    """What may be otherwise at the next attempt; after: the seconds that the server asks to wait."""

    def __init__(self, told: str, after: float = 0.0) -> None:
        super().__init__(told)
        self.after = after


@dataclass(frozen=True)
class Endpoint:
    """Where to ask and with what.

    url: what `/embeddings` is put behind. key: the API key; None is none. wanted: what a request says beside the texts.
    timeout: seconds in which the server must begin to answer, and go on. deadline: seconds for a request with all its
    attempts.
    """

    url: str
    key: str | None
    wanted: dict[str, Any]
    timeout: float
    deadline: float


class EmbeddingClient:
    """Asks one server; several threads may use it."""

    def __init__(self, endpoint: Endpoint, connections: int) -> None:
        headers = {"Authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        limits = httpx.Limits(max_connections=connections, max_keepalive_connections=connections)
        self._endpoint, self._ended = endpoint, Event()
        self._http = httpx.Client(headers=headers, timeout=endpoint.timeout, limits=limits)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of some texts, float32 [n, d].

        Attempts come at growing and random intervals, later if the server asks for it.

        Raises:
            ModelError: it refuses, answers otherwise than asked, or not within the deadline.
        """
        end, attempt = time.monotonic() + self._endpoint.deadline, 0
        while True:
            try:
                return self._attempt(texts, end)
            except _Passing as error:
                pause = max(error.after, random.uniform(0.5, 1.0) * min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT))
                if time.monotonic() + pause > end:
                    told = f"given up after {attempt + 1} attempts in {self._endpoint.deadline:g} s"
                    raise self._error(f"{told}; the last one: {error}") from None
                _log.info("%s: %s; asked again in %.1f s", self._endpoint.url, self._safe(str(error)), pause)
                if self._ended.wait(pause):
                    raise self._error("another request has failed") from None
                attempt += 1

    def reach(self) -> None:
        """Asks for the list of models. Raises ModelError where nothing answers, or not to this key."""
        try:
            answer = self._http.get(f"{self._endpoint.url}/models", timeout=min(_SOON, self._endpoint.timeout))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._error(f"no answer ({self._reason(error)}): start the server, or give another url") from None
        if answer.status_code in _OF_KEYS:
            raise self._error(f"status {answer.status_code}: {_OF_KEYS[answer.status_code]}")

    def end(self) -> None:
        """No request is tried again from now on."""
        self._ended.set()

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()

    def _attempt(self, texts: Sequence[str], end: float) -> NDArray[np.float32]:
        body = {**self._endpoint.wanted, "input": list(texts)}
        limit = _BASE_BYTES + len(texts) * _BYTES_A_TEXT
        try:
            with self._http.stream("POST", f"{self._endpoint.url}/embeddings", json=body) as response:
                content = self._read(response, limit, end)
        except httpx.TransportError as error:
            raise _Passing(self._reason(error)) from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise self._error(self._reason(error)) from None
        if response.status_code != 200:
            line = self._shown(_first_line(self._safe(content.decode("utf-8", "replace"))))
            told = f"status {response.status_code}{f': {line}' if line else ''}"
            if response.status_code in _PASSING:
                raise _Passing(told, _seconds(response.headers.get("Retry-After")))
            raise self._error("; ".join(filter(None, (told, _OF_KEYS.get(response.status_code)))))
        try:
            return vectors_of(content, len(texts))
        except BadAnswer as error:
            raise self._error(f"the answer is not as /v1/embeddings has it: {error}") from None

    def _read(self, response: httpx.Response, limit: int, end: float) -> bytes:
        parts, size = [], 0
        for part in response.iter_bytes():
            parts.append(part)
            size += len(part)
            if size > limit:
                raise self._error(f"an answer of more than {limit} bytes")
            if time.monotonic() > end:
                raise _Passing("the answer did not end")
        return b"".join(parts)

    def _error(self, told: str) -> ModelError:
        return ModelError(f"model {self._endpoint.wanted['model']!r} at {self._endpoint.url}: {self._safe(told)}")

    def _safe(self, text: str) -> str:
        """The text without the key, which a server may repeat."""
        return text.replace(self._endpoint.key, "(the key)") if self._endpoint.key else text

    def _shown(self, text: str) -> str:
        """The beginning; the key goes first, so that no part of it is left where it is cut."""
        return self._safe(text)[:_SHOWN]

    def _reason(self, error: Exception) -> str:
        return self._shown(" ".join(f"{type(error).__name__}: {error}".split()))


def _first_line(text: str) -> str:
    """What a body says first, in printable characters: OpenAI's `error.message`, or the line itself."""
    try:
        found = json.loads(text)
        error = found.get("error", found.get("message", found.get("detail", text)))
        text = str(error.get("message", error) if isinstance(error, dict) else error)
    except (ValueError, AttributeError, RecursionError):
        pass
    line = next(iter(text.strip().splitlines()), "")
    return "".join(character for character in line if character.isprintable())


def _seconds(header: str | None) -> float:
    """What `Retry-After` asks for: seconds, or a date."""
    if not header:
        return 0.0
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError):
        return 0.0
