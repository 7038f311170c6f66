"""The filter `scores` drops documents that score too high, with any miner."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, Literal

import numpy as np

from hardneg.mining.filter_protocol import FilterTexts
from hardneg.mining.miners.filtered import judged
from hardneg.mining.miners.selection import COMPARING, RULES
from hardneg.records.errors import PluginError
from hardneg.records.types import SCORES, Candidates


@dataclass(frozen=True, kw_only=True)
class ScoreFilter:
    """Drop documents that a rule does not keep, by their scores in the run labelled `scores`, or else in their list.

    The rules are those of the miners of these names; a document drawn from the corpus has no score, and stays.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3; Moreira et al., NV-Retriever (arXiv 2407.15831).

    Attributes:
        rule: the scores to keep: denoised, below the threshold; max-score, up to it; pos-margin, at least the
            threshold below the positive's; pos-percent, up to this share of the positive's.
        threshold: of the rule.
        without_positive: for a query without a scored positive, drop all candidates, or keep all.
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
        """Whether the rule compares candidates with their query's positives."""
        return self.rule in COMPARING

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return `score`, `unscored`, or `no scored positive` for documents that are not kept."""
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
