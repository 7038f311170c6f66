"""Semi-hard negatives, which score below the positive, within a margin."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.plugin import Candidates, Negatives


@dataclass(frozen=True)
class SemiHard:
    """Selects documents that score below the query's best positive, within a margin.

    If a query's list contains no positive, the query gets no negatives.

    Source: Schroff et al., FaceNet: A Unified Embedding for Face Recognition and Clustering (CVPR 2015), Eq. 4, with
    scores instead of distances.

    Args:
        margin: maximum difference from the score of the best positive.
        count: maximum number of documents to keep, highest scores first.
    """

    version: ClassVar[int] = 1

    margin: float = 0.2
    count: int = 50

    def __post_init__(self) -> None:
        if self.count < 1 or not self.margin > 0:
            raise ValueError("semi-hard: count must be at least 1, and margin above 0")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """Yield the negatives of each query, best first; `seed` has no effect, as nothing is sampled."""
        for query in candidates:
            yield self._between(query)

    def _between(self, query: Candidates) -> Negatives:
        ranking, refused = query.ranking, {*query.positives, *query.duplicates}
        listed = list(zip(ranking.doc_ids, ranking.scores.tolist(), strict=True))
        best = max((score for doc_id, score in listed if doc_id in query.positives), default=float("-inf"))
        ranks: dict[str, int] = {}
        dropped: Counter[str] = Counter()
        for rank, (doc_id, score) in enumerate(listed):
            if doc_id in refused or doc_id in ranks:
                dropped["known"] += 1
            elif best - self.margin <= score < best:
                ranks[doc_id] = rank
        kept = list(ranks.values())[: self.count]
        return Negatives(query.query_id, query.positives, [*ranks][: self.count], ranking.scores[kept], dict(dropped))
