"""Negatives by their ranks: the top of a list, or a window of it."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hardneg.mining.miners.selection import select
from hardneg.records.depths import TOP_DEPTH
from hardneg.records.errors import PluginError
from hardneg.records.types import Candidates, Negatives


@dataclass(frozen=True)
class TopK:
    """The best-ranked documents of a run that are not positives, such as STAR's static hard negatives.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives
    (SIGIR 2021), section 6.1.1; the top 200 are those of section 7.3.

    Attributes:
        depth: how many documents to keep, counted after the exclusions; a shorter list has fewer.
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    depth: int = TOP_DEPTH
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise PluginError(f"topk: depth must be 1 or above, not {self.depth}")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, best first; nothing is drawn, so `seed` has no effect."""
        for query in candidates:
            yield select(query, range(len(query.ranking.doc_ids)), self.depth, self.exclude_copies)


@dataclass(frozen=True)
class Window:
    """The documents from rank skip + 1 to rank `depth` of a run, positives left out.

    Ranks are those of the run as it was retrieved, counted from 1 before any exclusion: a positive
    at the top uses up one of the skipped ranks. The top is skipped because unlabelled positives
    are most frequent there.

    Source: Wrzalik and Krechel, CoRT, whose program draws from ranks 8 to 100: skip 7, depth 100.

    Attributes:
        skip: how many ranks to leave out at the top.
        depth: the last rank to look at.
        exclude_copies: also leave out documents whose contents equal a positive's.
    """

    version: ClassVar[int] = 1

    skip: int
    depth: int
    exclude_copies: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.skip < self.depth:
            raise PluginError(f"window: need 0 <= skip < depth, not skip {self.skip} and depth {self.depth}")

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, best first; nothing is drawn, so `seed` has no effect."""
        for query in candidates:
            length = len(query.ranking.doc_ids)
            negatives = select(query, range(self.skip, min(self.depth, length)), self.depth, self.exclude_copies)
            skipped = {"skipped": min(self.skip, length)} if self.skip and length else {}
            yield replace(negatives, dropped={**skipped, **negatives.dropped})
