"""The reranker `chat-listwise`: a language model puts the passages of a query in order, a window at a time."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hardneg_judge.answers import permutation
from hardneg_judge.journal import Answer
from hardneg_judge.prompts import IN_ORDER, filled, template
from hardneg_judge.server import ChatServer, ChatSession, Reply


@dataclass(frozen=True)
class ChatListwise(ChatServer):
    """A language model behind a server puts the passages of a query in order, from the end of the list to its top.

    A window slides over the list, so that the best passages of each rise with it. The score of a passage is how many
    are at or below its place. Answers are repaired: numbers of no passage, and those that come again, are passed over,
    and passages that an answer leaves out follow in the order that they had.

    Source: Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, Is ChatGPT Good at Search? Investigating Large Language Models
    as Re-Ranking Agents (EMNLP 2023), section 3.2: windows of 20 passages, in steps of 10.

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
        with Ordering(self, self.window) as ordering:
            yield from ordering.rerank(self, requests)


class Ordering(ChatSession):
    """Several queries at a time."""

    def rerank(self, options: ChatListwise, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[list[float]]:
        """The score of each passage. Raises ModelError as `ask`, and where no answer can be read."""
        calls = ([partial(self._in_order, options, query, passages)] for query, passages in requests)
        for ((order, replies),) in self.in_order(calls):
            for reply in replies:
                self.count(reply)
            scores = [0.0] * len(order)
            for position, passage in enumerate(order):
                scores[passage] = float(len(order) - position)
            yield scores

    def _in_order(
        self, options: ChatListwise, query: str, passages: Sequence[str]
    ) -> tuple[list[int], list[Reply[int]]]:
        """The numbers of the passages from 0, the best first, and what was answered."""

        def read(answer: Answer) -> tuple[list[int], bool]:
            named = permutation(answer.text, len(window))
            return named, bool(named)

        order, replies = list(range(len(passages))), list[Reply[int]]()
        end = len(order)
        while end > 1:
            start = max(0, end - options.window)
            window = order[start:end]
            texts = [passages[passage][: options.characters] for passage in window]
            replies.append(self.reply(filled(options.prompt, query, texts, numbered=True), read))
            order[start:end] = [window[position] for position in replies[-1].values] or window
            end = 0 if start == 0 else end - options.step
        return order, replies
