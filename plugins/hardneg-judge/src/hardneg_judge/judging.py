"""Two levels of judges over mined negatives, a block of queries at a time, and what becomes of relevant ones."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import Corpus, Drops, Negatives, PluginError
from hardneg_judge.levels import Opened, Request

Outcome = Literal["drop-negative", "drop-query", "positive"]
Scores = NDArray[np.float32]
RELEVANT, UNREADABLE = "relevant", "unreadable"
"""Why a negative is taken away, beside the reasons of miners: it is none, or the judge did not say that it is one."""


@dataclass(frozen=True)
class Judged:
    """A query's first n negatives as they were mined, each with what the judges said.

    flag, decide: float32 [n], the scores of the first and the second judge, nan where it was not asked, or gave none.
    relevant, unread: bool [n], what was found relevant, and of what the second judge gave no score.
    """

    mined: Negatives
    flag: Scores
    decide: Scores
    relevant: NDArray[np.bool_]
    unread: NDArray[np.bool_]

    def left(self, outcome: Outcome) -> Negatives | None:
        """What is left of the query; None where it goes with its relevant negatives."""
        if outcome == "drop-query" and self.relevant.any():
            return None
        item, out = self.mined, self.relevant | self.unread
        judged_relevant = [item.negatives[i] for i in np.flatnonzero(self.relevant).tolist()]
        kept = [item.negatives[i] for i in np.flatnonzero(~out).tolist()]
        positives = [*item.positives, *judged_relevant] if outcome == "positive" else item.positives
        counts = {RELEVANT: len(judged_relevant), UNREADABLE: int(self.unread.sum())}
        dropped = {reason: count for reason, count in counts.items() if count}
        scores = np.asarray(item.scores, np.float32)[~out]
        return Negatives(item.query_id, positives, kept, scores, dropped, self._drops(out))

    def _drops(self, dropped: NDArray[np.bool_]) -> Drops:
        out = np.flatnonzero(dropped)
        decisive = np.where(np.isnan(self.decide), self.flag, self.decide)[out]
        ids = [self.mined.negatives[i] for i in out.tolist()]
        reasons = [RELEVANT if self.relevant[i] else UNREADABLE for i in out.tolist()]
        chosen = np.flatnonzero(~dropped).astype(np.int32) + 1
        return Drops(len(dropped), ids, out.astype(np.int32) + 1, reasons, decisive, chosen)


def cut(items: Iterable[Negatives], depth: int, facts: Counter[str]) -> Iterator[Negatives]:
    """The first `depth` negatives of each query; what stands behind them is left out and counted."""
    for item in items:
        facts["negatives behind the depth"] += max(0, len(item.negatives) - depth)
        yield replace(item, negatives=item.negatives[:depth], scores=np.asarray(item.scores, np.float32)[:depth])


def blocks(items: Iterable[Negatives], depth: int, pairs: int) -> Iterator[list[Negatives]]:
    """Queries that have at most so many pairs together, or one query."""
    waiting = iter(items)
    while block := list(islice(waiting, max(1, pairs // depth))):
        yield block


def judged(
    block: Sequence[Negatives], texts: Mapping[str, str], corpus: Corpus, flag: Opened | None, decide: Opened
) -> list[Judged]:
    """What the judges say of some queries' negatives; the second is asked of those alone that the first flags."""
    every = [np.ones(len(item.negatives), bool) for item in block]
    flags = [np.full(len(item.negatives), np.nan, np.float32) for item in block]
    wanted_rows = every
    if flag is not None:
        flags = _scores(flag, block, every, texts, corpus)
        wanted_rows = [~(scores < flag.relevant_from) for scores in flags]  # also what the first could not tell
    decided = _scores(decide, block, wanted_rows, texts, corpus)
    return [
        Judged(item, first, second, second >= decide.relevant_from, wanted & np.isnan(second))
        for item, first, second, wanted in zip(block, flags, decided, wanted_rows, strict=True)
    ]


def _scores(
    level: Opened,
    block: Sequence[Negatives],
    wanted_rows: Sequence[NDArray[np.bool_]],
    texts: Mapping[str, str],
    corpus: Corpus,
) -> list[Scores]:
    """For each query a score of each negative that is asked of, nan of the others: float32 [n]."""
    answers = level.scores(_requests(block, wanted_rows, texts, corpus))
    judged_relevant = []
    for item, wanted in zip(block, wanted_rows, strict=True):
        scores, said = np.full(len(wanted), np.nan, np.float32), next(answers, ())
        if len(said) != wanted.sum():
            counts = f"{len(said)} scores for the {wanted.sum()} passages of query {item.query_id}"
            raise PluginError(f"{level.name}: the reranker gave {counts}: one a passage is needed, in their order")
        scores[wanted] = said
        judged_relevant.append(scores)
    return judged_relevant


def _requests(
    block: Sequence[Negatives], wanted_rows: Sequence[NDArray[np.bool_]], texts: Mapping[str, str], corpus: Corpus
) -> Iterator[Request]:
    for item, wanted in zip(block, wanted_rows, strict=True):
        doc_ids = [item.negatives[i] for i in np.flatnonzero(wanted).tolist()]
        rows = corpus.known_rows(doc_ids, "negative", "mine again from this corpus")
        yield texts[item.query_id], corpus.contents(rows)
