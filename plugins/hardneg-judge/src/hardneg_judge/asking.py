"""Many questions to a language model at a time, answered in their order; what is known is not asked again."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Event
from types import TracebackType
from typing import TYPE_CHECKING, Self

from hardneg_judge.client import ChatClient
from hardneg_judge.journal import Answer, AnswerJournal, request_key
from hardneg_judge.prompts import filled
from hardneg_judge.verdicts import verdicts

if TYPE_CHECKING:
    from hardneg_judge.chat import Chat

_LOT = 64  # times the same: what is asked of between two looks at the progress
_AHEAD = 4  # times the requests that are under way: what is read ahead
REQUESTS, KEPT, READ, WRITTEN, UNREADABLE, UNCOUNTED = (
    "requests", "answers kept from before", "tokens read", "tokens written", "unreadable", "answers without usage"
)  # fmt: skip
_Asked = tuple[Answer, bool]
_Ask = Callable[[str, str], "Future[_Asked]"]


@dataclass(frozen=True)
class _Part:
    """A message under way about so many passages; again: another part has asked the same."""

    key: str
    passages: int
    answer: "Future[_Asked]"
    again: bool


class Asking:
    """Asks of passages in the order given.

    counts: what the answers that were used came to: requests, and of these what was known before, tokens as the server
    counts them, passages of which the answer did not say it.
    """

    def __init__(self, chat: "Chat", client: ChatClient, journal: AnswerJournal) -> None:
        self._chat, self._client, self._journal = chat, client, journal
        self.counts = Counter[str]()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
        self._journal.close()

    @property
    def at_once(self) -> int:
        """How many passages to give it at a time: the last requests of each lot wait for none."""
        return _LOT * self._chat.in_flight * self._chat.batch

    @property
    def cost(self) -> float:
        """Of all answers that were used, whenever they were paid for."""
        return self._chat.cost(self.counts[READ], self.counts[WRITTEN])

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[list[float]]:
        """The score of each passage. Raises ModelError as `ChatClient.ask`."""
        pool, ended = ThreadPoolExecutor(self._chat.in_flight), Event()
        ask = partial(self._asked, ended=ended)
        try:
            yield from self._in_order(requests, lambda key, message: pool.submit(ask, key, message))
        finally:
            ended.set()
            pool.shutdown(cancel_futures=True)

    def _in_order(self, requests: Iterable[tuple[str, Sequence[str]]], ask: _Ask) -> Iterator[list[float]]:
        waiting: deque[list[_Part]] = deque()
        under_way: dict[str, Future[_Asked]] = {}
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
        self, query: str, passages: Sequence[str], under_way: "dict[str, Future[_Asked]]", ask: _Ask
    ) -> list[_Part]:
        parts = []
        for start in range(0, len(passages), self._chat.batch):
            sent = [text[: self._chat.characters] for text in passages[start : start + self._chat.batch]]
            message = filled(self._chat.prompt, query, sent, numbered=self._chat.batch > 1)
            key = request_key(message)
            again = key in under_way
            if not again:
                under_way[key] = ask(key, message)
            parts.append(_Part(key, len(sent), under_way[key], again))
        return parts

    def _asked(self, key: str, message: str, ended: Event) -> _Asked:
        """The answer to a message, and whether it was known."""
        if (known := self._journal.find(key)) is not None:
            return known, True
        answer = self._client.ask(message, ended)
        self._journal.keep(key, answer)
        return answer, False

    def _scores(self, parts: Sequence[_Part]) -> list[float]:
        scores: list[float] = []
        for part in parts:
            answer, known = part.answer.result()
            if not part.again:
                self._count(answer, known)
            found = verdicts(answer.text, part.passages, self._chat.scale, numbered=self._chat.batch > 1)
            self.counts[UNREADABLE] += found.count(None)
            scores += [self._chat.unread if score is None else score for score in found]
        return scores

    def _count(self, answer: Answer, known: bool) -> None:
        self.counts[REQUESTS] += 1
        self.counts[KEPT] += known
        self.counts[READ] += max(0, answer.read)
        self.counts[WRITTEN] += max(0, answer.written)
        self.counts[UNCOUNTED] += min(answer.read, answer.written) < 0
