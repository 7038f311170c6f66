"""Many questions to a language model at a time, answered in their order; what is known is not asked again."""

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hardneg_judge.journal import Answer, request_key
from hardneg_judge.prompts import filled
from hardneg_judge.session import READ, UNREADABLE, WRITTEN, ChatSession, Reply
from hardneg_judge.verdicts import verdicts

if TYPE_CHECKING:
    from hardneg_judge.chat import Chat

_LOT = 64  # times the same: what is asked of between two looks at the progress
_SURELY = 64  # passages: where of so many first ones not one could be read, the others are not asked about
_DOUBTFUL = 0.05  # of the passages: from here on it is told
_AHEAD = 4  # times the requests that are under way: what is read ahead
_log = logging.getLogger(__name__)
_Verdicts = list[float | None]
_Scored = Reply[_Verdicts]
_Ask = Callable[[str, int], "Future[_Scored]"]


@dataclass(frozen=True)
class _Part:
    """A message under way; again: another part has asked the same."""

    key: str
    answer: "Future[_Scored]"
    again: bool


class Asking:
    """Asks of passages in the order given.

    unread: the score of a passage of which an answer does not say it. Such answers are not kept.
    counts: what the answers that were used came to: requests, and of these what was known before, tokens as the server
    counts them, passages of which the answer did not say it.
    """

    def __init__(self, chat: "Chat", session: ChatSession, unread: float) -> None:
        self._chat, self._session, self._unread = chat, session, unread
        self._passages = 0
        self.counts = Counter[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, raised: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()
        if raised is None:
            self._check()

    @property
    def at_once(self) -> int:
        """How many passages to give it at a time: the last requests of each lot wait for none."""
        return _LOT * self._chat.in_flight * self._chat.batch

    @property
    def cost(self) -> float:
        """Of all answers that were used, whenever they were paid for."""
        return self._chat.cost(self.counts[READ], self.counts[WRITTEN])

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[list[float]]:
        """The score of each passage. Raises ModelError as `ChatClient.ask`, and where no answer can be read."""
        pool, ended = ThreadPoolExecutor(self._chat.in_flight), Event()
        ask = partial(self._ask_once, ended=ended)
        try:
            yield from self._in_order(requests, lambda message, count: pool.submit(ask, message, count))
        finally:
            ended.set()
            pool.shutdown(cancel_futures=True)

    def _in_order(self, requests: Iterable[tuple[str, Sequence[str]]], ask: _Ask) -> Iterator[list[float]]:
        waiting: deque[list[_Part]] = deque()
        under_way: dict[str, Future[_Scored]] = {}
        ahead = 0
        for query, passages in requests:
            waiting.append(self._begun(query, passages, under_way, ask))
            ahead += 1 + len(waiting[-1])
            while ahead > _AHEAD * self._chat.in_flight and waiting:
                ahead -= 1 + len(waiting[0])
                yield self._scores(waiting[0])
                for part in waiting.popleft():
                    under_way.pop(part.key, None)
        while waiting:
            yield self._scores(waiting.popleft())

    def _begun(
        self, query: str, passages: Sequence[str], under_way: "dict[str, Future[_Scored]]", ask: _Ask
    ) -> list[_Part]:
        parts = []
        for start in range(0, len(passages), self._chat.batch):
            sent = [text[: self._chat.characters] for text in passages[start : start + self._chat.batch]]
            message = filled(self._chat.prompt, query, sent, numbered=self._chat.batch > 1)
            key = request_key(message)
            again = key in under_way
            if not again:
                under_way[key] = ask(message, len(sent))
            parts.append(_Part(key, under_way[key], again))
        return parts

    def _ask_once(self, message: str, passages: int, ended: Event) -> _Scored:
        """The answer to a message, and what it says of each passage."""

        def read(answer: Answer) -> tuple[_Verdicts, bool]:
            judged = verdicts(answer.text, passages, self._chat.scale, numbered=self._chat.batch > 1)
            return judged, None not in judged

        return self._session.reply(message, read, ended)

    def _scores(self, parts: Sequence[_Part]) -> list[float]:
        scores: list[float] = []
        for part in parts:
            reply = part.answer.result()
            judged = reply.value
            if not part.again:
                reply.add_to(self.counts)
            self._passages += len(judged)
            self.counts[UNREADABLE] += judged.count(None)
            scores += [self._unread if score is None else score for score in judged]
            if self._passages >= _SURELY:
                self._refuse_silence(reply.answer.text)
        return scores

    def _refuse_silence(self, said: str = "") -> None:
        if self._passages == self.counts[UNREADABLE] > 0:
            shown = f"; the last one is {' '.join(said.split())[:80]!r}" if said else ""
            problem = f"not one of {self._passages} passages has an answer that can be read{shown}"
            raise self._session.client.error(
                f"{problem}: look at the server, and at the options prompt, scale and tokens"
            )

    def _check(self) -> None:
        """Raises ModelError where no answer could be read; tells it where many could not."""
        self._refuse_silence()
        if (unread := self.counts[UNREADABLE]) > _DOUBTFUL * self._passages:
            problem = f"of {self._passages} passages {unread} have no answer that can be read"
            _log.warning("%s: %s; another prompt or more tokens may help", self._chat.model, problem)
