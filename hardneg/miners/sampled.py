"""Documents drawn from the top of a ranked list as negatives."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.errors import PluginError
from hardneg.miners.selection import select
from hardneg.seeding import generator
from hardneg.types import Candidates, Negatives


@dataclass(frozen=True)
class Sampled:
    """Documents drawn uniformly, without replacement, from the first `depth` of a run, positives left out.

    Source: Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text Retrieval
    (ICLR 2021), section 5; its program keeps 20 of the top 200.

    Attributes:
        depth: the last rank to draw from, counted from 1 before any exclusion.
        count: how many documents to keep; a list that has fewer gives all it has.
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    depth: int = 200
    count: int = 20
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if min(self.depth, self.count) < 1:
            raise PluginError(
                f"sampled: depth and count must be 1 or above, not depth {self.depth} and count {self.count}"
            )

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, in the order they were drawn."""
        for query in candidates:
            length = min(self.depth, len(query.ranking.doc_ids))
            order = generator(seed, "sampled", query.query_id).permutation(length).tolist()
            yield select(query, order, self.count, self.exclude_copies)
