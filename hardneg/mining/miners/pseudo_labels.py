"""Pseudo-positives and pseudo-negatives for unlabelled queries, where a scorer is sure of both."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from hardneg.formats.corpus import Corpus, candidates
from hardneg.formats.runs import QueryLists
from hardneg.mining.miners.selection import scores_of
from hardneg.mining.miners.thresholds import Denoised
from hardneg.records.depths import SCORED_DEPTH
from hardneg.records.types import SCORES, Candidates, Negatives, RankedList

NO_POSITIVE, NO_NEGATIVE = "queries without a pseudo-positive", "queries without a pseudo-negative"


@dataclass(frozen=True)
class PseudoLabels:
    """Labels by thresholds: the one best document is the positive, the first ones with low scores are negatives.

    Source: Qu et al., RocketQA (NAACL 2021), sections 3.3 and 4.1.3.

    Attributes:
        above: the positive scores strictly more.
        below: negatives score strictly less.
        count: how many negatives to keep, in the order of the list.
        depth: how many documents of the list to look at.
    """

    above: float = 0.9
    below: float = Denoised.below
    count: int = Denoised.count
    depth: int = SCORED_DEPTH

    def of(self, listed: Iterable[QueryLists], corpus: Corpus, left_out: Counter[str]) -> Iterator[Negatives]:
        """Return the labels of each query that has a positive and a negative; `left_out` counts the others."""
        miner = Denoised(self.depth, self.count, below=self.below)
        for item in miner.mine(self._with_positives(listed, corpus, left_out), seed=0):
            if item.negatives:
                yield item
            else:
                left_out[NO_NEGATIVE] += 1

    def _with_positives(
        self, listed: Iterable[QueryLists], corpus: Corpus, left_out: Counter[str]
    ) -> Iterator[Candidates]:
        for query_id, hits in listed:
            if (positive := self.positive(hits)) is None:
                left_out[NO_POSITIVE] += 1
            else:
                yield candidates(corpus, query_id, [positive], hits)

    def positive(self, hits: Mapping[str, RankedList]) -> str | None:
        """Return the document with the highest score, if that is high enough; the best ranked of those that share it.

        A run has no equal scores: each is written as the next smaller number. So close ones count as equal.
        """
        top, scored = next(iter(hits.values())).doc_ids[: self.depth], hits[SCORES]
        scores = scores_of(top, scored)
        best = np.max(scores, where=~np.isnan(scores), initial=-np.inf)
        if not best > self.above:
            return None
        steps = len(scored.doc_ids) * np.spacing(np.abs(best))
        return top[int(np.argmax(scores >= best - steps))]
