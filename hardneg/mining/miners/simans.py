"""SimANS: negatives whose scores are near the positive's are drawn more often than others."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.mining.miners.selection import accepted, check_counts, refusal, scores_of
from hardneg.records import TOP_DEPTH, Candidates, Negatives, PluginError
from hardneg.runtime import generator

NO_POSITIVE = "no scored positive"
Scores = NDArray[np.float64]

FORMS: Mapping[str, Callable[[Scores, float], Scores]] = {
    "paper": lambda away, shift: (away - shift) ** 2,
    "unshifted": lambda away, shift: away**2,
    "absolute": lambda away, shift: np.abs(away),
    "opposite": lambda away, shift: (away + shift) ** 2,
}
"""The penalty f on a document's log odds, of s(d) - s(positive), float64 [n], and the shift."""


@dataclass(frozen=True)
class SimAns:
    """Draw ambiguous negatives: scored near the positive, neither far above it nor far below.

    The odds of document d, with away = s(d) - s(positive), are exp(-sharpness * f), where f is by `form`. Draws are
    without replacement, from the top of the list. A positive that the list lacks has no score: use a run
    searched with `positives`.

    Source: Zhou et al., SimANS: Simple Ambiguous Negatives Sampling for Dense Text Retrieval (EMNLP 2022,
    arXiv 2210.11773), Eq. 4; its programs have the other forms.

    Attributes:
        count: how many documents to draw; a list with fewer fit ones has all of them drawn.
        depth: the last rank to draw from, counted from 1 before any exclusion.
        sharpness: the paper's a; scores of a narrow range, such as cosines, need a larger one.
        shift: the paper's b; the forms unshifted and absolute have none.
        form: paper, f = (away - shift)^2; unshifted, away^2 (the program's read-me); absolute, abs(away) (its program
            for MS MARCO passages, sharpness 3); opposite, (away + shift)^2 (its programs for NQ, TriviaQA and MS MARCO
            documents, which shift the other way than the paper).
        positive: which score a query with several scored positives has: drawn, that of any one, as published; mean;
            lowest.
        without_positive: for a query without a scored positive: last, the documents of the top that rank
            lowest, as in the programs; drop, it has no negatives.
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 2
    compares: ClassVar[bool] = True

    count: int = 50
    depth: int = TOP_DEPTH
    sharpness: float = 0.5
    shift: float = 0.0
    form: Literal["paper", "unshifted", "absolute", "opposite"] = "paper"
    positive: Literal["drawn", "mean", "lowest"] = "drawn"
    without_positive: Literal["last", "drop"] = "last"
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        check_counts(count=self.count, depth=self.depth)
        if not 0 <= self.sharpness < np.inf or not isfinite(self.shift):
            values = f"{self.sharpness} and {self.shift}"
            raise PluginError(f"sharpness must be a number of 0 or above and shift one, not {values}")
        if self.shift and self.form in ("unshifted", "absolute"):
            raise PluginError(f"form {self.form} has no shift: leave shift out, or take form paper")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Return the negatives of each query, in the list's order."""
        for query in candidates:
            yield self._mined(query, generator(seed, "simans", query.query_id))

    def _mined(self, query: Candidates, draws: np.random.Generator) -> Negatives:
        top, dropped = query.ranking.doc_ids[: self.depth], Counter[str]()
        ranks = np.array([rank for rank, _ in accepted(top, refusal(query, self.exclude_copies), dropped)], np.int64)
        scores = np.asarray(query.ranking.scores, np.float32)[ranks]
        known = scores_of(query.positives, query.ranking)
        known, positive = known[~np.isnan(known)], None
        if len(known):
            drawn = known[draws.integers(len(known))] if self.positive == "drawn" else 0.0
            positive = float({"mean": known.mean(), "lowest": known.min(), "drawn": drawn}[self.positive])
        if positive is None:
            chosen = np.arange(len(ranks))[-self.count :]
            if self.without_positive == "drop":
                chosen, dropped = chosen[:0], dropped + Counter({NO_POSITIVE: len(ranks)})
        else:  # the largest sums of log odds and Gumbel noise are draws without replacement
            keys = self.log_odds(scores, positive) + draws.gumbel(size=len(ranks))
            chosen = np.sort(np.argsort(-keys, kind="stable")[: self.count])
        doc_ids = [top[rank] for rank in ranks[chosen].tolist()]
        noted = (NO_POSITIVE,) if positive is None else ()
        return Negatives(query.query_id, query.positives, doc_ids, scores[chosen], dict(dropped), noted=noted)

    def log_odds(self, scores: NDArray[np.float32], positive: float) -> Scores:
        """Return the log odds of each document, float64 [n], up to a constant."""
        return -self.sharpness * FORMS[self.form](scores.astype(np.float64) - positive, self.shift)
