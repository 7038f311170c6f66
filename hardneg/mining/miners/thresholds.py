"""Miners that filter candidates by their scores."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.mining.miners import selection
from hardneg.mining.miners.selection import RULES, Rule, lowest, refusal, scores_of
from hardneg.records import SCORED_DEPTH, SCORES, Candidates, Drops, Negatives, RankedList
from hardneg.runtime import generator

SCORE, UNSCORED, NO_POSITIVE = "score", "unscored", "no scored positive"


@dataclass(frozen=True)
class Filtered:
    """The first `count` documents of a list's top that a rule keeps by their scores, positives left out.

    A subclass names its rule, and the field that has the rule's threshold.

    Attributes:
        depth: how many documents of the list to look at.
        count: how many to keep.
        order: which of those that the rule keeps come first: top, as the list has them; scored, the highest score of
            the run labelled `scores` first; random, drawn.
        fill: random: missing negatives are drawn from the list below `depth`, with any scores.
        exclude_copies: also leave out documents whose contents equal a positive's.
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
        selection.check_counts(depth=self.depth, count=self.count)
        selection.check_threshold(self.named, self.threshold, getattr(self, self.threshold))

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Return the negatives of each query, with the documents that were left out of the first `depth`."""
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
            others = selection.accepted((ranking.doc_ids[i] for i in behind), refused, dropped)
            chosen += [behind[i] for i, _ in islice(others, self.count - len(chosen))]
        out = [i for i, reason in enumerate(reasons) if reason]
        ranks = np.array(out, np.int32) + 1
        left_out = [reasons[i] for i in out]
        return Negatives(
            query.query_id,
            query.positives,
            [ranking.doc_ids[i] for i in chosen],
            np.asarray(ranking.scores, np.float32)[chosen],
            dict(dropped),
            Drops(len(top), [top[i] for i in out], ranks, left_out, scores[out], np.array(chosen, np.int32) + 1),
            noted,
        )


def judged(
    query: Candidates, doc_ids: Sequence[str], scored: RankedList, rule: Rule, compares: bool
) -> tuple[NDArray[np.float32], list[str], tuple[str, ...]]:
    """Return the scores of documents in a list, the reason to drop each (empty: none), and notes on the query."""
    scores, positive = scores_of(doc_ids, scored), lowest(scores_of(query.positives, scored))
    unknown = compares and bool(np.isnan(positive))
    against = np.where(rule(scores, np.atleast_1d(positive)), "", NO_POSITIVE if unknown else SCORE)
    verdicts = np.where(np.isnan(scores), UNSCORED, against).tolist()
    return scores, verdicts, (NO_POSITIVE,) if unknown else ()


@dataclass(frozen=True)
class Denoised(Filtered):
    """The top of a list without documents that a cross-encoder does not confidently call negative.

    Source: Qu et al., RocketQA (NAACL 2021), sections 3.3 and 4.1.3. Its program keeps the first of the top 50, and
    fills up at random from lower ranks.

    Attributes:
        below: keep documents that score strictly less in the run labelled `scores`, or else in the list.
    """

    version: ClassVar[int] = 1
    named, threshold = "denoised", "below"

    below: float = 0.1


@dataclass(frozen=True, kw_only=True)
class MaxScore(Filtered):
    """The top of a list without documents that score above a threshold.

    Source: Merrick et al., Arctic-Embed (arXiv 2405.05374), where the threshold is tuned.

    Attributes:
        highest: keep documents that score no more in the run labelled `scores`, or else in the list.
    """

    version: ClassVar[int] = 1
    named, threshold = "max-score", "highest"

    highest: float


@dataclass(frozen=True)
class PositiveAware(Filtered):
    """The top of a list without documents that score too near to the query's lowest-scored positive.

    Attributes:
        without_positive: for a query without a scored positive, drop all candidates, or keep all.
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
    """The top of a list without documents that score less than a margin below the query's positives.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-MarginPos.

    Attributes:
        margin: keep documents that score at least this much below the positive.
    """

    version: ClassVar[int] = 1
    named, threshold = "pos-margin", "margin"

    margin: float = 0.05


@dataclass(frozen=True)
class PosPercent(PositiveAware):
    """The top of a list without documents that score more than a share of the query's positives.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-PercPos.

    Attributes:
        share: keep documents that score no more than this share of the positive's score; of a score s below zero,
            no more than s - (1 - share) |s|.
    """

    version: ClassVar[int] = 1
    named, threshold = "pos-percent", "share"

    share: float = 0.95
