"""The top of a ranked list as negatives."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from hardneg.errors import PluginError
from hardneg.miners.selection import select
from hardneg.types import Candidates, Negatives


@dataclass(frozen=True)
class TopK:
    """The best-ranked documents of a run that are not positives, such as STAR's static hard negatives.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives
    (SIGIR 2021), section 6.1.1; the top 200 are those of section 7.3.

    Attributes:
        depth: how many documents to keep, counted after the exclusions; a shorter list gives what it has.
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    depth: int = 200
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise PluginError(f"topk: depth must be 1 or above, not {self.depth}")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, best first; nothing is drawn, so `seed` has no effect."""
        for query in candidates:
            yield select(query, range(len(query.ranking.doc_ids)), self.depth, self.exclude_copies)
