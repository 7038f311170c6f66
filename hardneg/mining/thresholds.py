"""Miners that filter or sample candidates by score, and the rules for scores."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import isfinite
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.mining.ranks import accepted, check_counts, refusal
from hardneg.records import SCORED_DEPTH, SCORES, TOP_DEPTH, Candidates, Drops, Negatives, PluginError, RankedList
from hardneg.runtime import generator

SCORE, UNSCORED, NO_POSITIVE = "score", "unscored", "no scored positive"
Scores = NDArray[np.float64]

Rule = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.bool_]]
"""Maps candidates' scores, float32 [n], and the lowest positive score, float32 [n] or [1], to a mask, bool [n].

The mask is true for documents to keep. A missing score is nan, so unscored documents are dropped. Rules that compare
with positives drop all documents of a query without a scored positive.
"""

RULES: Mapping[str, Callable[[float], Rule]] = {
    "denoised": lambda most: lambda scores, positive: scores < most,
    "max-score": lambda most: lambda scores, positive: scores <= most,
    "pos-margin": lambda width: lambda scores, positive: scores + width <= positive,
    "pos-percent": lambda share: lambda scores, positive: scores <= positive - np.abs(positive) * (1 - share),
}
"""Functions that return the rule for a threshold, by rule name, which is also the name of a miner."""

COMPARING = ("pos-margin", "pos-percent")
"""The rules that compare a document's score with the scores of the query's positives."""

FORMS: Mapping[str, Callable[[Scores, float], Scores]] = {
    "paper": lambda away, shift: (away - shift) ** 2,
    "unshifted": lambda away, shift: away**2,
    "absolute": lambda away, shift: np.abs(away),
    "opposite": lambda away, shift: (away + shift) ** 2,
}
"""The penalty f by `form`: a function of s(d) - s(positive), float64 [n], and `shift`. Log odds are -sharpness * f."""


def check_threshold(rule: str, name: str, value: float) -> None:
    """Raise PluginError if the threshold is not finite or, for `pos-percent`, not above 0 and at most 1."""
    if not isfinite(value):
        raise PluginError(f"{name} must be a finite number, not {value}")
    if rule == "pos-percent" and not 0 < value <= 1:
        raise PluginError(f"{name} must be above 0 and at most 1, not {value}")


def scores_of(doc_ids: Sequence[str], scored: RankedList) -> NDArray[np.float32]:
    """Return the documents' scores in the list `scored`: float32 [n], nan for documents that are not in it."""
    known = dict(zip(scored.doc_ids, scored.scores.tolist(), strict=True))
    return np.array([known.get(doc_id, np.nan) for doc_id in doc_ids], np.float32)


def judged(
    query: Candidates, doc_ids: Sequence[str], scored: RankedList, rule: Rule, compares: bool
) -> tuple[NDArray[np.float32], list[str], tuple[str, ...]]:
    """Return the documents' scores, float32 [n], the reasons to drop them (empty to keep), and notes on the query.

    scored: the list that supplies the scores. compares: whether the rule reads the lowest score of a positive.
    """
    scores, known = scores_of(doc_ids, scored), scores_of(query.positives, scored)
    positive = np.array([np.fmin.reduce(known, initial=np.nan)], np.float32)  # the lowest known score
    unknown = compares and bool(np.isnan(positive[0]))
    against = np.where(rule(scores, positive), "", NO_POSITIVE if unknown else SCORE)
    verdicts = np.where(np.isnan(scores), UNSCORED, against).tolist()
    return scores, verdicts, (NO_POSITIVE,) if unknown else ()


@dataclass(frozen=True)
class SimAns:
    """Draw ambiguous negatives, whose scores are near the positive's, neither far above nor far below.

    The odds of document d are exp(-sharpness * f), where `form` defines f from away = s(d) - s(positive). Draws are
    without replacement from the top of the list. A positive that is not in the list has no score, so use a run
    searched with `positives`.

    Source: Zhou et al., SimANS: Simple Ambiguous Negatives Sampling for Dense Text Retrieval (EMNLP 2022,
    arXiv 2210.11773), Eq. 4; the other forms come from the authors' code.

    Attributes:
        count: number of documents to draw; all candidates of a shorter list are drawn.
        depth: the last rank to draw from, counted from 1 before any exclusion.
        sharpness: the paper's a; scores in a narrow range, such as cosines, need a larger value.
        shift: the paper's b; the forms unshifted and absolute do not use it.
        form: paper, f = (away - shift)^2; unshifted, away^2 (the README of the code); absolute, abs(away) (the code
            for MS MARCO passages, sharpness 3); opposite, (away + shift)^2 (the code for NQ, TriviaQA and MS MARCO
            documents, which shifts the other way from the paper).
        positive: which score to use if a query has several scored positives: drawn, the score of a random one, as
            published; mean; lowest.
        without_positive: what a query without a scored positive gets: last, the lowest-ranked documents within `depth`,
            as in the code; drop, no negatives.
        exclude_copies: whether to exclude documents with the same contents as a positive.
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
            raise PluginError(f"sharpness must be at least 0 and finite, and shift must be finite, not {values}")
        if self.shift and self.form in ("unshifted", "absolute"):
            raise PluginError(f"form {self.form} does not use shift; remove shift, or use form paper")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query, in the list's order."""
        for query in candidates:
            yield self._mined(query, generator(seed, "simans", query.query_id))

    def _mined(self, query: Candidates, draws: np.random.Generator) -> Negatives:
        top, dropped = query.ranking.doc_ids[: self.depth], Counter[str]()
        fit = accepted(top, refusal(query, self.exclude_copies), dropped)
        ranks = np.array([rank for rank, _ in fit], np.int64)
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
        """Return the log odds of each document, float64 [n], up to a constant; scores: float32 [n]."""
        return -self.sharpness * FORMS[self.form](scores.astype(np.float64) - positive, self.shift)


@dataclass(frozen=True)
class Filtered:
    """Up to `count` documents from the top of a list that are not positives and have scores that satisfy a rule.

    A subclass sets `named`, the name of the rule, and `threshold`, the name of the field with the rule's threshold.

    Attributes:
        depth: number of documents at the top of the list to consider.
        count: number of documents to keep.
        order: the order of the documents that the rule keeps: top, as in the list; scored, by descending score in the
            run labelled `scores`; random, in random order.
        fill: `random` adds random documents from below `depth`, whatever their scores, up to `count`; `none` adds none.
        exclude_copies: whether to exclude documents with the same contents as a positive.
    """

    version: ClassVar[int] = 1
    named: ClassVar[str]
    threshold: ClassVar[str]
    compares: ClassVar[bool] = False

    depth: int = SCORED_DEPTH
    count: int = 4
    order: Literal["top", "scored", "random"] = "top"
    fill: Literal["none", "random"] = "none"
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        check_counts(depth=self.depth, count=self.count)
        check_threshold(self.named, self.threshold, getattr(self, self.threshold))

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query, recording in `drops` which of the first `depth` were dropped and why."""
        rule = self._rule()
        for query in candidates:
            yield self._mined(query, rule, generator(seed, "filtered", query.query_id))

    def _rule(self) -> Rule:
        return RULES[self.named](getattr(self, self.threshold))

    def _mined(self, query: Candidates, rule: Rule, draws: np.random.Generator) -> Negatives:
        ranking, refused = query.ranking, refusal(query, self.exclude_copies)
        top = ranking.doc_ids[: self.depth]
        scored = query.hits.get(SCORES, ranking)
        scores, verdicts, noted = judged(query, top, scored, rule, self.compares)
        reasons = [refused(doc_id) or verdict for doc_id, verdict in zip(top, verdicts, strict=True)]
        fit = np.flatnonzero([not reason for reason in reasons])
        if self.order == "random":
            fit = draws.permutation(fit)
        elif self.order == "scored":
            fit = fit[np.argsort(-scores[fit], kind="stable")]
        chosen = fit[: self.count].tolist()
        dropped = Counter(filter(None, reasons))
        if self.fill == "random":
            behind = draws.permutation(np.arange(len(top), len(ranking.doc_ids))).tolist()
            others = accepted((ranking.doc_ids[i] for i in behind), refused, dropped)
            chosen += [behind[i] for i, _ in islice(others, self.count - len(chosen))]
        out = [i for i, reason in enumerate(reasons) if reason]
        ranks, taken = (np.array(rows, np.int32) + 1 for rows in (out, chosen))
        drops = Drops(len(top), [top[i] for i in out], ranks, [reasons[i] for i in out], scores[out], taken)
        doc_ids, own = [ranking.doc_ids[i] for i in chosen], np.asarray(ranking.scores, np.float32)[chosen]
        return Negatives(query.query_id, query.positives, doc_ids, own, dict(dropped), drops, noted)


@dataclass(frozen=True)
class Denoised(Filtered):
    """The documents at the top of a list that a cross-encoder confidently scores as negative.

    Source: Qu et al., RocketQA (NAACL 2021), sections 3.3 and 4.1.3. The authors' code keeps the first such documents
    of the top 50 and draws missing ones at random from lower ranks.

    Attributes:
        below: exclusive upper bound on a document's score in the run labelled `scores`, or else in the list.
    """

    version: ClassVar[int] = 1
    named, threshold = "denoised", "below"

    below: float = 0.1


@dataclass(frozen=True, kw_only=True)
class MaxScore(Filtered):
    """The documents at the top of a list that do not score above a threshold.

    Source: Merrick et al., Arctic-Embed (arXiv 2405.05374), where the threshold is tuned.

    Attributes:
        highest: highest score of a kept document in the run labelled `scores`, or else in the list.
    """

    version: ClassVar[int] = 1
    named, threshold = "max-score", "highest"

    highest: float


@dataclass(frozen=True)
class PositiveAware(Filtered):
    """The documents at the top of a list that do not score too close to the query's lowest-scored positive.

    Attributes:
        without_positive: whether to drop or keep all candidates of a query without a scored positive.
    """

    compares: ClassVar[bool] = True

    without_positive: Literal["drop", "keep"] = "drop"

    def _rule(self) -> Rule:
        rule = super()._rule()
        if self.without_positive == "drop":
            return rule
        return lambda scores, positive: rule(scores, positive) | np.isnan(positive)


@dataclass(frozen=True)
class PosMargin(PositiveAware):
    """The documents at the top of a list that score at least a margin below the query's lowest-scored positive.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-MarginPos.

    Attributes:
        margin: minimum difference between the lowest score of a positive and the score of a document that is kept.
    """

    version: ClassVar[int] = 1
    named, threshold = "pos-margin", "margin"

    margin: float = 0.05


@dataclass(frozen=True)
class PosPercent(PositiveAware):
    """The documents at the top of a list that score at most a share of the lowest-scored positive's score.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-PercPos.

    Attributes:
        share: highest score of a kept document, as a share of s, the lowest score of a positive; if s is negative, the
            limit is s - (1 - share) |s|.
    """

    version: ClassVar[int] = 1
    named, threshold = "pos-percent", "share"

    share: float = 0.95
