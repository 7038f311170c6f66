"""SimANS: negatives whose scores are near the positive's are drawn more often."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.seeding import generator
from hardneg.types import Candidates, Negatives


@dataclass(frozen=True)
class SimAns:
    """Draws ambiguous negatives: the odds of document d are exp(-sharpness * (s(d) - s(positive) - shift)^2).

    s(positive) is the mean score of the query's positives that the run's list holds. Where it holds none, the
    list's lowest score stands for it: the positive scored no higher. Draws are without replacement.

    Source: Zhou et al., SimANS: Simple Ambiguous Negatives Sampling for Dense Text Retrieval (EMNLP 2022,
    arXiv 2210.11773), Eq. 4.

    Args:
        count: how many documents to draw; a list that has fewer fit ones gives all of them.
        depth: how many ranks of the list to draw from.
        sharpness: the paper's a; scores of a narrow range, such as cosines, need a larger one.
        shift: the paper's b; below 0 moves the preferred scores under the positive's.
    """

    version: ClassVar[int] = 1

    count: int = 50
    depth: int = 200
    sharpness: float = 1.0
    shift: float = 0.0

    def __post_init__(self) -> None:
        if min(self.count, self.depth) < 1 or not self.sharpness >= 0:
            raise ValueError("simans: count and depth must be 1 or above, sharpness 0 or above")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, in the list's order."""
        for query in candidates:
            yield self._draw(query, generator(seed, "simans", query.query_id))

    def _draw(self, query: Candidates, draws: np.random.Generator) -> Negatives:
        ranking = query.ranking
        ranks, dropped = _fit(query, self.depth)
        scores = np.asarray(ranking.scores, np.float32)[ranks]
        noise = draws.gumbel(size=len(ranks))  # the largest sums of log odds and noise are draws without replacement
        keys = self.log_odds(scores, positive_score(query)) + noise
        chosen = np.sort(np.argsort(-keys, kind="stable")[: self.count])
        doc_ids = [ranking.doc_ids[int(rank)] for rank in ranks[chosen]]
        return Negatives(query.query_id, query.positives, doc_ids, scores[chosen], dropped)

    def log_odds(self, scores: NDArray[np.float32], positive: float) -> NDArray[np.float64]:
        """The logarithm of each document's odds, float64 [n], up to a constant."""
        return -self.sharpness * (scores.astype(np.float64) - positive - self.shift) ** 2


def positive_score(query: Candidates) -> float:
    """The mean score of the positives in the list, its lowest score where there is none, 0 for an empty list."""
    ranking, positives = query.ranking, frozenset(query.positives)
    scores = np.asarray(ranking.scores, np.float64)
    found = scores[[rank for rank, doc_id in enumerate(ranking.doc_ids) if doc_id in positives]]
    return float(found.mean()) if len(found) else float(scores.min(initial=np.inf)) if len(scores) else 0.0


def _fit(query: Candidates, depth: int) -> tuple[NDArray[np.int64], dict[str, int]]:
    """The ranks, from 0, of the documents that may be negatives, and how many others there are, by reason."""
    kept: dict[str, int] = {}
    dropped: Counter[str] = Counter()
    positives = frozenset(query.positives)
    for rank, doc_id in enumerate(query.ranking.doc_ids[:depth]):
        if doc_id in positives:
            dropped["positive"] += 1
        elif doc_id in query.duplicates:
            dropped["duplicate"] += 1
        elif doc_id in kept:
            dropped["repeated"] += 1
        else:
            kept[doc_id] = rank
    return np.array(list(kept.values()), np.int64), dict(dropped)
