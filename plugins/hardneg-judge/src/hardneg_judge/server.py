"""A chat server: what every plugin that asks one has for options, and a session of questions and answers."""

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

from hardneg.plugin import errors, model_server, stores


class Answer(NamedTuple):
    """What a model has said, and the tokens that it read and wrote, as the server counts them; -1 where it did not."""

    text: str
    read: int = -1
    written: int = -1


def request_key(content: str) -> str:
    """What a request is known by: 128 bits of its content, in hexadecimal digits."""
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class AnswerJournal:
    """Answers by request; memory holds their places alone.

    Several threads and processes may use one file. What a process that is killed has kept is whole; a line that it was
    writing is passed over.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file, making it where there is none. Raises ArtifactError where it cannot be had."""
        self._lock, self._offsets, offset = Lock(), dict[int, int](), 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._reader = path.open("rb")
        except OSError as error:
            message = f"{path}: answers cannot be kept ({error.strerror}): make room, or free the path"
            raise errors.ArtifactError(message) from error
        for line in self._reader:
            if (record := _record(line)) is not None:
                self._offsets[_short(record[0])] = offset
            offset += len(line)

    def __len__(self) -> int:
        return len(self._offsets)

    def find(self, key: str) -> Answer | None:
        """The answer to a request, if it is known."""
        with self._lock:
            if (offset := self._offsets.get(_short(key))) is None:
                return None
            self._reader.seek(offset)
            record = _record(self._reader.readline())
        return Answer(*record[1:]) if record is not None and record[0] == key else None

    def keep(self, key: str, answer: Answer) -> None:
        """Adds an answer. Raises ArtifactError where the disk does not take it."""
        record = json.dumps([key, *answer], ensure_ascii=True)
        line = f"\n{record}\t{_checksum(record.encode())}".encode()
        with self._lock:
            try:
                os.write(self._file, line)
                end = os.lseek(self._file, 0, os.SEEK_CUR)
            except OSError as error:
                raise errors.ArtifactError(
                    f"answers cannot be kept ({error.strerror}): make room on the disk"
                ) from error
            self._offsets[_short(key)] = end - len(line) + 1

    def close(self) -> None:
        """Ends the use of the file."""
        os.close(self._file)
        self._reader.close()


def _short(key: str) -> int:
    return int(key[:16], 16)


def _record(line: bytes) -> tuple[str, str, int, int] | None:
    """A line's key, answer and tokens; None where it is not whole."""
    record, _, checksum = line.rstrip(b"\n").rpartition(b"\t")
    if not record or checksum.decode("ascii", "replace") != _checksum(record):
        return None
    key, text, read, written = json.loads(record)
    return key, text, read, written


def _checksum(record: bytes) -> str:
    return f"{zlib.crc32(record):08x}"


REQUESTS, KEPT, READ, WRITTEN, UNREADABLE, UNCOUNTED = (
    "requests", "answers kept from before", "tokens read", "tokens written", "unreadable", "answers without usage"
)  # fmt: skip
_ABOVE_0 = ("characters", "tokens", "in_flight", "timeout", "deadline")
_OWN = ("model", "messages", "max_tokens", "temperature", "stream", "n")
_AHEAD = 4  # times the requests that are under way: what is read ahead
_MOST = 4  # MiB of an answer
_TOKENS = 1 << 40  # no answer has so many
_SURELY = 16  # answers: where of so many first ones not one could be read, no more are asked for
_DOUBTFUL = 0.05  # of the answers: from here on it is told
_log = logging.getLogger(__name__)
Value = TypeVar("Value")
Result = TypeVar("Result")


@dataclass(frozen=True)
class ChatServer:
    """A language model behind a server that speaks OpenAI's /v1/chat/completions.

    Answers are kept on this machine by the model, what it was told, and the whole message, so that nothing is asked
    twice.

    Args:
        model: the model's name at the server.
        url: what `/chat/completions` is put behind; not in a key.
        key: the environment variable that holds the API key; none is sent where it is not given.
        revision: any word; another one where the server has other weights under the same name.
        characters: how much of a passage is sent, from its beginning; null sends all.
        tokens: how many tokens an answer may have for each passage; null does not say it to the server.
        temperature: of the model's draws; null does not say it.
        more: what else a request says, such as {reasoning_effort: low}.
        in_flight: requests that wait for an answer at a time, at most.
        timeout: seconds in which the server must begin to answer, and go on.
        deadline: seconds for a request with all its attempts.
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
        model_server.check_address(self.url, "http://localhost:8000/v1")
        if self.key is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key):
            raise ValueError("key: is no name of an environment variable: name the one that holds the API key")
        for name in _ABOVE_0:
            if (value := getattr(self, name)) is not None and not 0 < value < inf:
                raise ValueError(f"{name}: {value} must be above 0")
        if taken := [name for name in self.more if name in _OWN]:
            raise ValueError(f"more: {', '.join(taken)}: has an option of its own, or cannot be changed")


class Reply(NamedTuple, Generic[Value]):
    """An answer, whether it was known, the values read in it (none: it is unreadable), and whether none is lacking."""

    answer: Answer
    known: bool
    values: list[Value]
    whole: bool


class ChatSession(model_server.ModelServer):
    """Asks one model of one server, several questions at a time; answers that can be read are kept.

    counts: what the answers that were used came to: requests, and of these what was known before, tokens as the server
    counts them, answers that could not be read in full.
    """

    def __init__(self, options: ChatServer, passages: int) -> None:
        """passages: in a message. Raises ModelError where there is no key, ArtifactError where nothing can be kept."""
        said: dict[str, Any] = {"model": options.model, **options.more}
        if options.tokens is not None:
            said["max_tokens"] = options.tokens * passages
        if options.temperature is not None:
            said["temperature"] = options.temperature
        times = (options.timeout, options.deadline)
        key = model_server.key_of(options.model, options.key)
        self._journal = AnswerJournal(
            stores.cache_folder() / "answers" / f"{stores.digest([options.revision, said])}.jsonl"
        )
        super().__init__(options.url.rstrip("/"), key, said, *times, options.in_flight)
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
            problem = f"of {requests} answers {unread} cannot be read in full"
            _log.warning("%s: %s; another prompt or more tokens may help", self.said["model"], problem)

    def ask(self, message: str) -> Answer:
        """What the model says to one message.

        Raises:
            ModelError: the server refuses, answers in another form, or not within the deadline.
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
            problem = "the answer is not as /v1/chat/completions has it: no JSON with `choices[0].message.content`"
            raise self.error(problem) from None
        read, written = (count if type(count) is int and 0 <= count < _TOKENS else -1 for count in tokens)
        if written < 0 and cut:  # it has said all tokens that it may
            written = self.said.get("max_tokens", -1)
        text = text.encode(errors="ignore").decode() if isinstance(text, str) else ""  # halves of characters go
        return Answer(self.without_key(text), read, written)

    def reply(self, message: str, read: Callable[[Answer], tuple[list[Value], bool]]) -> Reply[Value]:
        """The answer to a message, from the journal if it is there and can be read.

        read: the values in an answer, and whether none is lacking, so that it is kept. Raises ModelError as `ask`.
        """
        key = request_key(message)
        with self._locks[int(key[:8], 16) % len(self._locks)]:  # of equal messages the first one is asked
            if (known := self._journal.find(key)) is not None and (said := read(known))[1]:
                return Reply(known, True, *said)
            answer = self.ask(message)
            values, whole = read(answer)
            if whole:
                self._journal.keep(key, answer)
        return Reply(answer, False, values, whole)

    def in_order(self, groups: Iterable[Sequence[Callable[[], Result]]]) -> Iterator[list[Result]]:
        """The results of each group of calls, which run at a time; a bounded number is read ahead."""
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
        """Counts a reply that is used. Raises ModelError where of the first ones none can be read."""
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
            problem = f"not one of {counts[REQUESTS]} answers can be read; the last one is {last!r}"
            raise self.error(f"{problem}: look at the server, and at the options prompt and tokens")
