"""The rerankers `chat` and `chat-listwise` and the filter `chat`: a language model on a server judges passages."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf, nan
from typing import ClassVar, Literal

from hardneg.plugin import Candidates, protocols
from hardneg_judge.prompts import BEST, IN_ORDER, Scale, built_in, filled, permutation, template, verdicts
from hardneg_judge.server import Answer, ChatServer, ChatSession, Reply

RELEVANT, UNREADABLE, UNJUDGED = "relevant", "unreadable", "unjudged"
"""Reasons for dropping a candidate: it is judged relevant, its verdict is unreadable, or it is not judged."""
_LOT = 64  # requests between two updates of progress, per request in flight


@dataclass(frozen=True)
class Chat(ChatServer):
    """A language model, on a server with OpenAI's /v1/chat/completions API, that judges passages for a query.

    A score is 1 or 0 with scale `yes-no`, and a grade from 0 to 3 with scale `grades`. Answers are cached on this
    machine by model, parameters and message, so that no request is repeated.

    Source: Thomas, Spielman, Craswell and Mitra, Large Language Models can Accurately Predict Searcher Preferences
    (SIGIR 2024); Thakur, Zhang, Ma and Lin, Fixing Data That Hurts Performance: Cascading LLMs to Relabel Hard
    Negatives for Robust Information Retrieval (2025, arXiv 2505.16967).

    Args:
        prompt: a template or a template file, with {query} and {passages}; its text is part of artifact keys.
        scale: the form of a verdict: `yes-no`, or `grades` from 0 to 3.
        batch: number of passages of one query per message.
        unreadable: how to score a passage without a readable verdict: `irrelevant` or `relevant`. The verb `judge`
            drops such negatives unless `relevant` is set.
    """

    version: ClassVar[int] = 2

    prompt: str = ""
    scale: Scale = "yes-no"
    batch: int = 1
    unreadable: Literal["irrelevant", "relevant"] = "irrelevant"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.batch < inf:
            raise ValueError(f"batch: must be above 0, not {self.batch}")
        object.__setattr__(self, "prompt", template(self.prompt, built_in(self.scale, self.batch)))

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """Yield the scores of each query's passages, in order. A bounded number of requests is read ahead.

        Raises:
            ModelError: the key is missing, the server refuses or does not answer, or no answer is readable.
        """
        with self.asking() as asking:
            yield from asking.rerank(requests)

    def asking(self, judging: bool = False) -> "Asking":
        """Open a session that counts requests and tokens.

        judging: if true, a passage without a readable verdict scores nan, not 0, unless `unreadable` is `relevant`.

        Raises:
            ModelError: the key is missing.
        """
        return Asking(self, self.best if self.unreadable == "relevant" else nan if judging else 0.0)

    @property
    def best(self) -> float:
        """The highest score; the lowest is 0."""
        return BEST[self.scale]


class Asking(ChatSession):
    """A session that scores passages in order. unread: the score of a passage without a readable verdict."""

    def __init__(self, chat: Chat, unread: float) -> None:
        super().__init__(chat, chat.batch)
        self._chat, self._unread = chat, unread
        self.at_once = _LOT * chat.in_flight * chat.batch
        """The number of passages to submit at a time: enough to keep `in_flight` requests busy most of the time."""

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[list[float]]:
        """Yield the scores of each query's passages. Raises ModelError like `ask`, and if no answer is readable."""
        chat = self._chat

        def calls(query: str, passages: Sequence[str]) -> Iterator[partial[tuple[int, Reply[float | None]]]]:
            for start in range(0, len(passages), chat.batch):
                sent = [text[: chat.characters] for text in passages[start : start + chat.batch]]
                yield partial(self._part, filled(chat.prompt, query, sent, numbered=chat.batch > 1), len(sent))

        for group in self.in_order(list(calls(query, passages)) for query, passages in requests):
            scores: list[float] = []
            for count, reply in group:
                self.count(reply)
                values = reply.values or [None] * count
                scores += [self._unread if score is None else score for score in values]
            yield scores

    def _part(self, message: str, count: int) -> tuple[int, Reply[float | None]]:
        def read(answer: Answer) -> tuple[list[float | None], bool]:
            parsed = verdicts(answer.text, count, self._chat.scale, numbered=self._chat.batch > 1)
            return ([] if parsed.count(None) == count else parsed), None not in parsed

        return count, self.reply(message, read)


@dataclass(frozen=True)
class ChatFilter(Chat):
    """Drop the candidates that a language model on a server judges relevant, and those without a verdict.

    Source: Thakur, Zhang, Ma and Lin, Fixing Data That Hurts Performance: Cascading LLMs to Relabel Hard Negatives for
    Robust Information Retrieval (2025, arXiv 2505.16967).

    Args:
        relevant_from: the lowest score that counts as relevant; at most 1 with `yes-no` and 3 with `grades`.
        depth: number of candidates to judge per list, from the top; the others are dropped as `unjudged`.
    """

    relevant_from: float = 1.0
    depth: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.relevant_from <= self.best:
            problem = f"must be above 0 and at most {self.best:g}, the best score, not {self.relevant_from:g}"
            raise ValueError(f"relevant_from: {problem}")
        if self.depth < 1:
            raise ValueError(f"depth: must be above 0, not {self.depth}")

    def reasons(self, candidates: Iterable[Candidates], texts: protocols.FilterTexts) -> Iterator[Mapping[str, str]]:
        """Yield, per query, the dropped candidates and why: `relevant`, `unreadable` or `unjudged`. Positives are kept.

        Raises:
            ModelError: the key is missing, the server refuses or does not answer, or no answer is readable.
        """
        waiting = iter(candidates)
        with self.asking(judging=True) as asking:
            while block := list(islice(waiting, max(1, asking.at_once // self.depth))):
                lists = [self._judged(query) for query in block]
                passages = [[document.contents for document in texts.documents(doc_ids)] for doc_ids in lists]
                scores = asking.rerank(zip(texts.queries([query.query_id for query in block]), passages, strict=True))
                for query, doc_ids, query_scores in zip(block, lists, scores, strict=True):
                    verdicts = dict(zip(doc_ids, map(self._verdict, query_scores), strict=True))
                    verdicts |= dict.fromkeys(query.positives, "")
                    against = {doc_id: verdicts.get(doc_id, UNJUDGED) for doc_id in query.listed}
                    yield {doc_id: reason for doc_id, reason in against.items() if reason}

    def _judged(self, query: Candidates) -> list[str]:
        """Return the distinct first documents of each list, without known positives."""
        known = frozenset(query.positives)
        tops = (doc_id for ranked in query.hits.values() for doc_id in ranked.doc_ids[: self.depth])
        return list(dict.fromkeys(doc_id for doc_id in tops if doc_id not in known))

    def _verdict(self, score: float) -> str:
        return UNREADABLE if score != score else RELEVANT if score >= self.relevant_from else ""


@dataclass(frozen=True)
class ChatListwise(ChatServer):
    """A language model on a server that reorders a query's passages within a sliding window.

    The window slides from the end of the list to the top, and the best passages move up with it. The score of a passage
    is the number of passages ranked at or below it. Answers are repaired: unknown and repeated numbers are ignored, and
    missing passages follow in their previous order.

    Source: Sun, Yan, Ma, Wang, Ren, Chen, Yin and Ren, Is ChatGPT Good at Search? Investigating Large Language Models
    as Re-Ranking Agents (EMNLP 2023), section 3.2: windows of 20 passages, in steps of 10.

    Args:
        prompt: a template or a template file, with {query} and {passages}; its text is part of artifact keys.
        window: number of passages per request.
        step: number of passages by which the window moves, below `window`.
    """

    version: ClassVar[int] = 2

    prompt: str = ""
    window: int = 20
    step: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.step < self.window:
            raise ValueError(f"step: must be above 0 and below window ({self.window}), not {self.step}")
        object.__setattr__(self, "prompt", template(self.prompt, IN_ORDER))

    def rerank(self, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[Sequence[float]]:
        """Yield the scores of each query's passages, in order. The windows of one query are sent one after another.

        Raises:
            ModelError: the key is missing, the server refuses or does not answer, or no answer is readable.
        """
        with Ordering(self, self.window) as ordering:
            yield from ordering.rerank(self, requests)


class Ordering(ChatSession):
    """A session that reorders the passages of several queries concurrently."""

    def rerank(self, options: ChatListwise, requests: Iterable[tuple[str, Sequence[str]]]) -> Iterator[list[float]]:
        """Yield the scores of each query's passages. Raises ModelError like `ask`, or if no answer is readable."""
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
        """Return the numbers of the passages from 0, best first, and the replies."""

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
