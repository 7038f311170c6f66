"""The top of a ranked list and random documents of the corpus together."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar

import numpy as np

from hardneg.errors import PluginError
from hardneg.miners.random import draw
from hardneg.miners.selection import refusal, select
from hardneg.seeding import generator
from hardneg.types import Candidates, Negatives


@dataclass(frozen=True)
class Mixed:
    """The best-ranked documents of a run, and for each of them so many drawn from the corpus, evenly interleaved.

    However many of the first ones are used, they have both kinds in the ratio. A shorter list has fewer random
    documents too, and a query without a list gets none.

    Source: BM25+Rand of Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text
    Retrieval (ICLR 2021), section 5: 1:1, from BM25's top 100.

    Attributes:
        depth: how many documents to take from the top, counted after the exclusions.
        ratio: random documents for each of them; they have no scores (nan).
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    depth: int = 100
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
            yield _interleaved(top, draw(query, count, draws, reason, len(top.negatives)))


def _interleaved(top: Negatives, drawn: Negatives) -> Negatives:
    """Both, each spread evenly over the list."""
    doc_ids = [*top.negatives, *drawn.negatives]
    places = [(np.arange(size) + 0.5) / size for size in (len(top.negatives), len(drawn.negatives)) if size]
    order = np.concatenate(places or [np.empty(0)]).argsort(kind="stable")
    scores = np.concatenate([top.scores, drawn.scores])[order]
    dropped = dict(Counter(top.dropped) + Counter(drawn.dropped))
    return Negatives(top.query_id, top.positives, [doc_ids[place] for place in order.tolist()], scores, dropped)
