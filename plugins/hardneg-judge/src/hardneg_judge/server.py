"""Options of all plugins that use a chat server, sessions of requests to it, and a journal of its answers."""

import hashlib
import json
import logging
import os
import re
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from threading import Event, Lock
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from hardneg_http import server

from hardneg.plugin import errors, stores


class Answer(NamedTuple):
    """A model's answer. read, written: numbers of tokens as the server counts them; -1 if it does not report them."""

    text: str
    read: int = -1
    written: int = -1


def request_key(content: str) -> str:
    """Return the key of a request: a 128-bit hash of its content, in hexadecimal digits."""
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class AnswerJournal:
    """A file of answers by request key. Only the positions of the answers in the file are held in memory.

    Several threads and processes may share a file. If a process is killed, stored answers remain complete; a partial
    last line is skipped.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, creating it if needed. Raises ArtifactError if that fails."""
        self._lock, self._offsets, offset = Lock(), dict[int, int](), 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._reader = path.open("rb")
        except OSError as error:
            message = f"{path}: answers cannot be stored ({error.strerror}); free disk space, or allow writing"
            raise errors.ArtifactError(message) from error
        for line in self._reader:
            if (record := _record(line)) is not None:
                self._offsets[_short(record[0])] = offset
            offset += len(line)

    def __len__(self) -> int:
        return len(self._offsets)

    def find(self, key: str) -> Answer | None:
        """Return the stored answer to the request with this key, or None if there is none."""
        with self._lock:
            if (offset := self._offsets.get(_short(key))) is None:
                return None
            self._reader.seek(offset)
            record = _record(self._reader.readline())
        return Answer(*record[1:]) if record is not None and record[0] == key else None

    def keep(self, key: str, answer: Answer) -> None:
        """Store an answer under its request key. Raises ArtifactError if writing fails."""
        record = json.dumps([key, *answer], ensure_ascii=True)
        line = f"\n{record}\t{_checksum(record.encode())}".encode()
        with self._lock:
            try:
                os.write(self._file, line)
                end = os.lseek(self._file, 0, os.SEEK_CUR)
            except OSError as error:
                raise errors.ArtifactError(f"answers cannot be stored ({error.strerror}); free disk space") from error
            self._offsets[_short(key)] = end - len(line) + 1

    def close(self) -> None:
        """Close the file; no answers can be found or kept afterwards."""
        os.close(self._file)
        self._reader.close()


def _short(key: str) -> int:
    return int(key[:16], 16)


def _record(line: bytes) -> tuple[str, str, int, int] | None:
    """Return a line's key, answer and tokens; None if it is incomplete."""
    record, _, checksum = line.rstrip(b"\n").rpartition(b"\t")
    if not record or checksum.decode("ascii", "replace") != _checksum(record):
        return None
    key, text, read, written = json.loads(record)
    return key, text, read, written


def _checksum(record: bytes) -> str:
    return f"{zlib.crc32(record):08x}"


REQUESTS, KEPT, READ, WRITTEN, UNREADABLE, UNCOUNTED = (
    "requests", "cached answers", "tokens read", "tokens written", "unreadable", "answers without usage"
)  # fmt: skip
_ABOVE_0 = ("characters", "tokens", "in_flight", "timeout", "deadline")
_OWN = ("model", "messages", "max_tokens", "temperature", "stream", "n")
_AHEAD = 4  # requests read ahead, per request in flight
_MOST = 4  # MiB per answer
_TOKENS = 1 << 40  # a bound on plausible counts
_SURELY = 16  # answers: give up if none of the first ones is readable
_DOUBTFUL = 0.05  # share of unreadable answers from which to warn
_log = logging.getLogger(__name__)
Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ChatServer:
    """A language model on a server with OpenAI's /v1/chat/completions API.

    Answers are cached on this machine by model, parameters and message, so that no request is repeated.

    Args:
        model: the model's name on the server.
        url: the base URL, without `/chat/completions`; not part of artifact keys.
        key: the environment variable that contains the API key; null sends no key.
        revision: any label; change it when the server has new weights under the same model name.
        characters: maximum number of characters of a passage to send; null sends all.
        tokens: maximum number of tokens of an answer per passage; null uses the server's default.
        temperature: sampling temperature; null uses the server's default.
        more: additional fields of a request, such as {reasoning_effort: low}.
        in_flight: maximum number of concurrent requests.
        timeout: seconds to wait for the start of an answer, and between its parts.
        deadline: seconds for a request, including all retries.
    """

    free: ClassVar[frozenset[str]] = frozenset({"url", "key", "in_flight", "timeout", "deadline"})

    model: str
    url: str = field(default="http://localhost:8000/v1", compare=False)
    key: str | None = field(default=None, compare=False)
    revision: str | None = None
    characters: int | None = 4000
    tokens: int | None = 16
    temperature: float | None = 0.0
    more: dict[str, Any] = field(default_factory=dict)
    in_flight: int = field(default=8, compare=False)
    timeout: float = field(default=60.0, compare=False)
    deadline: float = field(default=600.0, compare=False)

    def __post_init__(self) -> None:
        server.check_address(self.url, "http://localhost:8000/v1")
        if self.key is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key):
            raise ValueError("key: must be the name of the environment variable that contains the API key")
        for name in _ABOVE_0:
            if (value := getattr(self, name)) is not None and not 0 < value < inf:
                raise ValueError(f"{name}: must be above 0, not {value}")
        if taken := [name for name in self.more if name in _OWN]:
            raise ValueError(f"more: must not set {', '.join(taken)}; use an option for it if there is one")


class Reply(NamedTuple, Generic[Value]):
    """A parsed answer. known: whether it was cached. values: empty if unreadable. whole: whether all are readable."""

    answer: Answer
    known: bool
    values: list[Value]
    whole: bool


class ChatSession(server.ModelServer):
    """A session of concurrent requests to one model on one server. Fully readable answers are cached.

    counts: numbers of requests (including cached answers), tokens as the server counts them, and unreadable answers.
    """

    def __init__(self, options: ChatServer, passages: int) -> None:
        """Open a session. passages: number per message. Raises ModelError (no key) or ArtifactError (unusable file)."""
        parameters: dict[str, Any] = {"model": options.model, **options.more}
        if options.tokens is not None:
            parameters["max_tokens"] = options.tokens * passages
        if options.temperature is not None:
            parameters["temperature"] = options.temperature
        times = (options.timeout, options.deadline)
        key = server.key_of(options.model, options.key)
        self._journal = AnswerJournal(
            stores.cache_folder() / "answers" / f"{stores.digest([options.revision, parameters])}.jsonl"
        )
        super().__init__(options.url.rstrip("/"), key, parameters, *times, options.in_flight)
        self._ahead, self._pool = _AHEAD * options.in_flight, ThreadPoolExecutor(options.in_flight)
        self._ended, self._locks = Event(), [Lock() for _ in range(1024)]
        self._heard, self.counts = False, Counter[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, raised: type[BaseException] | None, *_: object) -> None:
        self._ended.set()
        self._pool.shutdown(cancel_futures=True)
        self.close()
        self._journal.close()
        requests, unread = self.counts[REQUESTS], self.counts[UNREADABLE]
        if raised is None and unread > _DOUBTFUL * requests:
            problem = f"{unread} of {requests} answers cannot be read in full"
            _log.warning("%s: %s; another prompt or more tokens may help", self.said["model"], problem)

    def ask(self, message: str) -> Answer:
        """Return the model's answer to one message.

        Raises:
            ModelError: the server refuses, answers in another format, or misses the deadline.
        """
        asked = {"messages": [{"role": "user", "content": message}]}
        content = self.post("/chat/completions", asked, _MOST, self._ended)
        try:
            body = json.loads(content)
            choice = body["choices"][0]
            text, cut = choice["message"]["content"], choice.get("finish_reason") == "length"
            usage = body.get("usage") or {}
            tokens = [usage.get(name) for name in ("prompt_tokens", "completion_tokens")]
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
            problem = "the answer is not JSON with `choices[0].message.content`, as /v1/chat/completions returns"
            raise self.error(problem) from None
        read, written = (count if type(count) is int and 0 <= count < _TOKENS else -1 for count in tokens)
        if written < 0 and cut:  # the limit was reached
            written = self.said.get("max_tokens", -1)
        text = text.encode(errors="ignore").decode() if isinstance(text, str) else ""  # drops half surrogate pairs
        return Answer(self.without_key(text), read, written)

    def reply(self, message: str, read: Callable[[Answer], tuple[list[Value], bool]]) -> Reply[Value]:
        """Return the answer to a message, from the journal if it has a complete one.

        read: a function that returns the values in an answer and whether they are complete. Only complete answers are
        cached. Raises ModelError like `ask`.
        """
        key = request_key(message)
        with self._locks[int(key[:8], 16) % len(self._locks)]:  # equal messages are sent once
            if (known := self._journal.find(key)) is not None and (parsed := read(known))[1]:
                return Reply(known, True, *parsed)
            answer = self.ask(message)
            values, whole = read(answer)
            if whole:
                self._journal.keep(key, answer)
        return Reply(answer, False, values, whole)

    def in_order(self, groups: Iterable[Sequence[Callable[[], Result]]]) -> Iterator[list[Result]]:
        """Run calls concurrently, and yield each group's results, in order. A bounded number is started ahead."""
        waiting, ahead = deque[list[Future[Result]]](), 0
        try:
            for group in groups:
                waiting.append([self._pool.submit(call) for call in group])
                ahead += 1 + len(group)
                while ahead > self._ahead and waiting:
                    ahead -= 1 + len(waiting[0])
                    yield [call.result() for call in waiting.popleft()]
            while waiting:
                yield [call.result() for call in waiting.popleft()]
        finally:
            for each in waiting:
                for call in each:
                    call.cancel()

    def count(self, reply: Reply[Any]) -> None:
        """Add a reply to `counts`. Raises ModelError if none of the first 16 answers is readable."""
        answer, counts = reply.answer, self.counts
        counts[REQUESTS] += 1
        counts[KEPT] += reply.known
        counts[READ] += max(0, answer.read)
        counts[WRITTEN] += max(0, answer.written)
        counts[UNCOUNTED] += min(answer.read, answer.written) < 0
        counts[UNREADABLE] += not reply.whole
        self._heard |= bool(reply.values)
        if counts[REQUESTS] >= _SURELY and not self._heard:
            last = " ".join(answer.text.split())[:80]
            problem = f"none of {counts[REQUESTS]} answers can be read, such as {last!r}"
            raise self.error(f"{problem}; check the server, and the options prompt and tokens")
