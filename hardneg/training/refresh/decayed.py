"""Negatives that stay while they are hard: a refresh replaces those that have become easy."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import NegativesFile, read_negatives
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.mining.miners.beside import beside
from hardneg.mining.miners.selection import scores_of
from hardneg.records.errors import TrainingError
from hardneg.records.types import Candidates, Encoded, Negatives, RankedList
from hardneg.registry.protocols import NegativeMiner, Searcher
from hardneg.training.refresh.folder import RefreshFolder
from hardneg.training.refresh.refresh_options import RefreshOptions

BEFORE, NOW = "before", "now"
"""A query's negatives in its `hits`: with the scores they had when they were mined, and with those they have now."""


def has_decayed(
    first: NDArray[np.float32], now: NDArray[np.float32], ratio: float, easy_below: float
) -> NDArray[np.bool_]:
    """Which negatives are no longer hard: ratio * now < first, and abs(now) < easy_below; bool [n].

    A negative that was mined with a score below zero fulfils the first condition unless its score rises.

    Source: Li et al., Conan-embedding: General Text Embedding with More and Better Negative Samples (arXiv 2408.15710),
    dynamic hard negative mining, with a ratio of 1.15 and scores below 0.8.

    Args:
        first: float32 [n], their scores when they were mined.
        now: float32 [n], their scores by the model as it is.
        ratio: above 1, how far a score may fall before the negative counts as easy.
        easy_below: a score of this size or more is hard whatever it was.
    """
    return (ratio * now < first) & (np.abs(now) < easy_below)


@dataclass(frozen=True)
class KeptWhileHard:
    """A miner that keeps a query's hard negatives and replaces the decayed ones with those of another miner.

    Where a query has none (no `BEFORE` among its hits) all are of the other miner. A document that is replaced does not
    come back at once. Scores are those that a negative had when it was mined.
    """

    version: ClassVar[int] = 1

    miner: NegativeMiner
    options: RefreshOptions

    def mine(self, candidates: Iterable[Candidates], *, seed: int) -> Iterator[Negatives]:
        """The negatives of each query, those that are kept first."""
        for query, fresh in beside(self.miner, candidates, seed):
            yield self._of(query, fresh)

    def _of(self, query: Candidates, fresh: Negatives) -> Negatives:
        none = RankedList((), np.empty(0, np.float32))
        before, now = query.hits.get(BEFORE, none), query.hits.get(NOW, none)
        scores = np.nan_to_num(scores_of(before.doc_ids, now), nan=0.0)
        decayed = has_decayed(before.scores, scores, self.options.decay, self.options.easy_below)
        kept, had = np.flatnonzero(~decayed).tolist(), frozenset(before.doc_ids)
        new = [position for position, doc_id in enumerate(fresh.negatives) if doc_id not in had]
        new = new[: self.options.negatives - len(kept)]
        doc_ids = [*(before.doc_ids[position] for position in kept), *(fresh.negatives[position] for position in new)]
        dropped = Counter(fresh.dropped) + Counter(decayed=int(decayed.sum()))
        joined = np.concatenate([before.scores[kept], fresh.scores[new]])
        return Negatives(query.query_id, query.positives, doc_ids, joined, dict(dropped))


@dataclass(frozen=True)
class LastMined:
    """The negatives of the refresh before, and what scores them: `searcher`, of the vectors of the model as it is."""

    file: NegativesFile
    corpus: Corpus
    searcher: Searcher

    def hits(self, query_ids: Sequence[str], queries: Encoded) -> Iterator[Mapping[str, RankedList]]:
        """For each query its negatives as `BEFORE` and `NOW`; nothing where it had none."""
        had = [self.file[self._rows[name]] if name in self._rows else None for name in query_ids]
        lists = [[] if item is None else list(item.negatives) for item in had]
        rows = self.corpus.known_lists(lists, max(map(len, lists), default=0), "start afresh")
        ranked = rank_candidates(self.searcher, queries, rows, max(1, rows.shape[1]))
        for item, own_rows, scores in zip(had, ranked.rows, ranked.scores, strict=True):
            if item is None:
                yield {}
                continue
            now = RankedList(self.corpus.ids(own_rows[own_rows >= 0]), scores[own_rows >= 0])
            yield {BEFORE: RankedList(item.negatives, item.scores), NOW: now}

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {query_id: row for row, query_id in enumerate(self.file.query_ids)}


def mined_before(options: RefreshOptions, refreshes: RefreshFolder, number: int) -> NegativesFile | None:
    """Return the negatives that refresh `number` updates; None for the first one, and where a refresh replaces all.

    Raises:
        TrainingError: they are gone.
    """
    if options.replace == "all" or not number:
        return None
    newest = refreshes.newest()
    if newest is None or newest.number >= number:
        message = f"the negatives that refresh {number} updates are gone: remove its parent to start afresh"
        raise TrainingError(f"{refreshes.folder}: {message}")
    return read_negatives(refreshes.negatives(newest.number), whole=True)
