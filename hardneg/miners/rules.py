"""Rules that say by its score whether a candidate may be a negative."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.types import RankedList

Rule = Callable[[NDArray[np.float32], NDArray[np.float32]], NDArray[np.bool_]]
"""From candidates' scores float32 [n] and the lowest score of their query's positives, float32 [n] or [1], to bool [n].

Nothing is kept that has no score (nan), nor, by a rule that compares, where no positive has one.
"""


def below(threshold: float) -> Rule:
    """Keeps what scores less than the threshold.

    Source: Qu et al., RocketQA (NAACL 2021), section 4.1.3, with a threshold of 0.1.
    """
    return lambda scores, positive: scores < threshold


def at_most(threshold: float) -> Rule:
    """Keeps what scores no more than the threshold.

    Source: Merrick et al., Arctic-Embed (arXiv 2405.05374).
    """
    return lambda scores, positive: scores <= threshold


def margin(width: float) -> Rule:
    """Keeps what scores at least `width` less than the positive.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-MarginPos.
    """
    return lambda scores, positive: scores + width <= positive


def share(of_positive: float) -> Rule:
    """Keeps what scores no more than this share of the positive's score.

    Of a negative score, the share is as far below it as that of the positive number would be.

    Source: Moreira et al., NV-Retriever (arXiv 2407.15831), TopK-PercPos, with a share of 0.95.
    """
    return lambda scores, positive: scores <= positive - np.abs(positive) * (1 - of_positive)


RULES: Mapping[str, Callable[[float], Rule]] = {
    "denoised": below,
    "max-score": at_most,
    "pos-margin": margin,
    "pos-percent": share,
}
"""The rule of each miner by the miner's name, made of its threshold."""


def scores_of(doc_ids: Sequence[str], scored: RankedList) -> NDArray[np.float32]:
    """Their scores in a list: float32 [n], nan for those that it lacks."""
    known = dict(zip(scored.doc_ids, scored.scores.tolist(), strict=True))
    return np.array([known.get(doc_id, np.nan) for doc_id in doc_ids], np.float32)


def lowest(scores: NDArray[np.float32]) -> np.float32:
    """The lowest of the scores that are known, nan where none is."""
    known = scores[~np.isnan(scores)]
    return np.float32(known.min()) if len(known) else np.float32(np.nan)
