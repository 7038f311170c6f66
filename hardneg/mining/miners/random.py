"""Negatives drawn at random: from the whole corpus, from the top of a list, or together with that."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from hardneg.mining.miners.selection import evenly, refusal, select
from hardneg.records.depths import LIST_DEPTH, TOP_DEPTH
from hardneg.records.errors import PluginError
from hardneg.records.types import Candidates, Negatives
from hardneg.runtime.seeding import generator


@dataclass(frozen=True)
class Random:
    """Documents drawn uniformly from the whole corpus, without replacement; they have no scores (nan).

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives
    (SIGIR 2021), section 7.2.2 (Rand Neg).

    Attributes:
        count: how many documents to draw; a smaller corpus has all of them drawn.
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    count: int = 200
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if self.count < 1:
            raise PluginError(f"random: count must be 1 or above, not {self.count}")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, in the order they were drawn."""
        for query in candidates:
            draws = generator(seed, "random", query.query_id)
            yield draw(query, self.count, draws, refusal(query, self.exclude_copies))


def draw(
    query: Candidates, count: int, draws: np.random.Generator, reason: Callable[[str], str | None], taken: int = 0
) -> Negatives:
    """Draw documents of the corpus in random order, `count` that `reason` accepts, or all there are.

    taken: how many documents `reason` refuses besides positives and copies; it sets how many are drawn at a time.
    """
    chosen: list[str] = []
    dropped: Counter[str] = Counter()
    wanted = max(1, count + len(query.positives) + len(query.duplicates) + taken)
    for doc_id in shuffled(query.doc_ids, wanted, draws):
        if len(chosen) == count:
            break
        if (why := reason(doc_id)) is None:
            chosen.append(doc_id)
        else:
            dropped[why] += 1
    scores = np.full(len(chosen), np.nan, np.float32)
    return Negatives(query.query_id, query.positives, chosen, scores, dict(dropped))


def shuffled(doc_ids: Sequence[str], wanted: int, draws: np.random.Generator) -> Iterator[str]:
    """Return distinct ids in random order: a small corpus permuted, a large one drawn from with repeats rejected."""
    if len(doc_ids) < 4 * wanted:
        yield from (doc_ids[int(row)] for row in draws.permutation(len(doc_ids)))
        return
    seen: set[int] = set()
    while True:
        for row in draws.integers(0, len(doc_ids), wanted).tolist():
            if row not in seen:
                seen.add(row)
                yield doc_ids[row]


@dataclass(frozen=True)
class Sampled:
    """Documents drawn uniformly, without replacement, from the first `depth` of a run, positives left out.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 5; its program keeps 20 of the top 200.

    Attributes:
        depth: the last rank to draw from, counted from 1 before any exclusion.
        count: how many documents to keep; a shorter list has all of them drawn.
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    depth: int = TOP_DEPTH
    count: int = 20
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if min(self.depth, self.count) < 1:
            raise PluginError(
                f"sampled: depth and count must be 1 or above, not depth {self.depth} and count {self.count}"
            )

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, in the order they were drawn."""
        for query in candidates:
            length = min(self.depth, len(query.ranking.doc_ids))
            order = generator(seed, "sampled", query.query_id).permutation(length).tolist()
            yield select(query, order, self.count, self.exclude_copies)


@dataclass(frozen=True)
class Mixed:
    """The best-ranked documents of a run with random documents of the corpus, evenly interleaved.

    Any prefix of the negatives has both in the ratio. A shorter list has fewer random
    documents too, and a query without a list has none.

    Source: BM25+Rand of Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text
    Retrieval (ICLR 2021), section 5: 1:1, from BM25's top 100.

    Attributes:
        depth: how many documents to take from the top, counted after the exclusions.
        ratio: random documents per ranked one; they have no scores (nan).
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    depth: int = LIST_DEPTH
    ratio: float = 1.0
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise PluginError(f"mixed: depth must be 1 or above, not {self.depth}")
        if not self.ratio > 0 or not isfinite(self.ratio):
            raise PluginError(f"mixed: ratio must be a number above 0, not {self.ratio}")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, those of the run best first."""
        for query in candidates:
            top = select(query, range(len(query.ranking.doc_ids)), self.depth, self.exclude_copies)
            reason = refusal(query, self.exclude_copies, top.negatives)
            count, draws = round(self.ratio * len(top.negatives)), generator(seed, "mixed", query.query_id)
            drawn = draw(query, count, draws, reason, len(top.negatives))
            order = evenly([len(top.negatives), len(drawn.negatives)])
            both = [*top.negatives, *drawn.negatives]
            scores = np.concatenate([top.scores, drawn.scores])[order]
            dropped = dict(Counter(top.dropped) + Counter(drawn.dropped))
            yield Negatives(top.query_id, top.positives, [both[i] for i in order.tolist()], scores, dropped)
