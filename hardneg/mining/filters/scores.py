"""The filter `scores`: documents that score too high are no negatives, whatever the miner."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

import numpy as np

from hardneg.mining.filter_protocol import FilterTexts
from hardneg.mining.miners.filtered import SCORES, judged
from hardneg.mining.miners.selection import COMPARING, RULES
from hardneg.records.errors import PluginError
from hardneg.records.types import Candidates


@dataclass(frozen=True, kw_only=True)
class ScoreFilter:
    """Drops what a rule does not keep by its score in the run labelled `scores`, or without one in its own list.

    The rules are those of the miners of these names; a document that was drawn from the corpus has no score, and stays.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3; Moreira et al., NV-Retriever (arXiv 2407.15831).

    Attributes:
        rule: what is kept: denoised, less than the threshold; max-score, no more than it; pos-margin, what is at least
            so much below the positive; pos-percent, what is no more than this share of the positive.
        threshold: of the rule.
        without_positive: what becomes of a query of which no positive has a score: drop all, or keep all.
    """

    version: ClassVar[int] = 1

    rule: Literal["denoised", "max-score", "pos-margin", "pos-percent"]
    threshold: float
    without_positive: Literal["drop", "keep"] = "drop"

    def __post_init__(self) -> None:
        if not isfinite(self.threshold):
            raise PluginError(f"threshold must be a number, not {self.threshold}")
        if self.rule == "pos-percent" and not 0 < self.threshold <= 1:
            raise PluginError(f"threshold of pos-percent must be above 0 and at most 1, not {self.threshold}")

    @property
    def compares(self) -> bool:
        """Whether the rule holds candidates against their query's positives."""
        return self.rule in COMPARING

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """`score`, `unscored`, or `no scored positive` for what is not kept."""
        rule, keep = RULES[self.rule](self.threshold), self.without_positive == "keep"
        for query in candidates:
            against: dict[str, str] = {}
            for label, ranked in query.hits.items():
                if label != SCORES:
                    doc_ids = [ranked.doc_ids[i] for i in np.flatnonzero(~np.isnan(ranked.scores)).tolist()]
                    scored = query.hits.get(SCORES, ranked)
                    _, verdicts, noted = judged(query, doc_ids, scored, rule, self.compares)
                    named = zip(doc_ids, verdicts, strict=True)
                    against |= {doc_id: verdict for doc_id, verdict in named if verdict and not (noted and keep)}
            yield against
