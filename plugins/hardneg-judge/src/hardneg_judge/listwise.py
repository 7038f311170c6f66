"""The reranker `chat-listwise`: a language model puts the passages of a query in order, a window at a time.

Source: Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, Is ChatGPT Good at Search? Investigating Large Language Models as
Re-Ranking Agents (EMNLP 2023), section 3.2.
"""

import logging
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, ClassVar

from hardneg_judge.journal import Answer
from hardneg_judge.prompts import IN_ORDER, filled, template
from hardneg_judge.server_options import ChatServer
from hardneg_judge.session import REQUESTS, UNREADABLE
from hardneg_judge.verdicts import spoken

if TYPE_CHECKING:
    from hardneg_judge.session import ChatSession

_NUMBER = re.compile(r"\d+")
_SURELY = 16  # windows: where of so many first ones not one could be read, the others are not asked about
_DOUBTFUL = 0.05  # of the windows: from here on it is told
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChatListwise(ChatServer):
    """A language model behind a server puts the passages of a query in order, from the end of the list to its top.

    A window slides over the list, so that the best passages of each rise with it. The score of a passage is how many
    are at or below its place. Answers are repaired: numbers of no passage, and those that come again, are passed over,
    and passages that an answer leaves out follow in the order that they had.

    Source: Sun et al., Is ChatGPT Good at Search? (EMNLP 2023), section 3.2: windows of 20 passages, in steps of 10.

    Args:
        prompt: a file with a template, or its text, with {query} and {passages}; the text is in keys.
        window: how many passages are put in order at a time.
        step: by how many the window moves on.
    """

    version: ClassVar[int] = 2

    prompt: str = ""
    window: int = 20
    step: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.step < self.window:
            raise ValueError(f"step: {self.step} must be above 0 and below window, {self.window}")
        object.__setattr__(self, "prompt", template(self.prompt, IN_ORDER))

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """The score of each passage, in the order given; of each query the windows follow each other.

        Raises:
            ModelError: there is no key, the server refuses or does not answer, or no answer can be read.
        """
        session = self.opened(self.window)
        try:
            yield from Ordering(self, session).rerank(requests)
        finally:
            session.close()


class Ordering:
    """Several queries at a time; counts: requests, those known before, tokens, and answers without any number."""

    def __init__(self, options: ChatListwise, session: "ChatSession") -> None:
        self._options, self._session = options, session
        self._ended = Event()
        self.counts = Counter[str]()

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[list[float]]:
        """The score of each passage. Raises ModelError as `ChatClient.ask`, and where no answer can be read."""
        pool, waiting = ThreadPoolExecutor(self._options.in_flight), deque[Future[tuple[list[int], Counter[str]]]]()
        try:
            for query, passages in requests:
                waiting.append(pool.submit(self._in_order, query, passages))
                while len(waiting) > 2 * self._options.in_flight:
                    yield self._scores(waiting.popleft())
            while waiting:
                yield self._scores(waiting.popleft())
        finally:
            self._ended.set()
            pool.shutdown(cancel_futures=True)
        if (unread := self.counts[UNREADABLE]) > _DOUBTFUL * self.counts[REQUESTS]:
            problem = f"of {self.counts[REQUESTS]} answers {unread} name no passage, so the order stays"
            _log.warning("%s: %s; another prompt or more tokens may help", self._options.model, problem)

    def _scores(self, ordered: "Future[tuple[list[int], Counter[str]]]") -> list[float]:
        order, counts = ordered.result()
        self.counts += counts
        if self.counts[REQUESTS] >= _SURELY and self.counts[REQUESTS] == self.counts[UNREADABLE]:
            problem = f"not one of {self.counts[REQUESTS]} answers names a passage by its number"
            raise self._session.client.error(f"{problem}: look at the server, and at the options prompt and tokens")
        scores = [0.0] * len(order)
        for position, passage in enumerate(order):
            scores[passage] = float(len(order) - position)
        return scores

    def _in_order(self, query: str, passages: Sequence[str]) -> tuple[list[int], Counter[str]]:
        """The numbers of the passages from 0, the best first, and what it took."""
        order, counts = list(range(len(passages))), Counter[str]()
        end = len(order)
        while end > 1:
            start = max(0, end - self._options.window)
            window = order[start:end]
            texts = [passages[passage][: self._options.characters] for passage in window]
            order[start:end] = [window[position] for position in self._ordered(query, texts, counts)]
            end = 0 if start == 0 else end - self._options.step
        return order, counts

    def _ordered(self, query: str, texts: Sequence[str], counts: Counter[str]) -> list[int]:
        message = filled(self._options.prompt, query, texts, numbered=True)

        def read(answer: Answer) -> tuple[list[int] | None, bool]:
            order = permutation(answer.text, len(texts))
            return order, order is not None

        reply = self._session.reply(message, read, self._ended)
        reply.add_to(counts)
        counts[UNREADABLE] += reply.value is None
        return list(range(len(texts))) if reply.value is None else reply.value


def permutation(answer: str, count: int) -> list[int] | None:
    """The order, from 0, in which an answer names passages 1 to `count`; None where it names none of them.

    Numbers of no passage, and those that come again, are passed over; passages that are left out follow in their order.
    """
    numbers = (int(number) - 1 for number in _NUMBER.findall(spoken(answer)) if len(number) < 10)
    named = dict.fromkeys(number for number in numbers if 0 <= number < count)
    return [*named, *(number for number in range(count) if number not in named)] if named else None
