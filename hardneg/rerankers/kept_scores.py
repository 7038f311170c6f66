"""Scores of rerankers kept: of networks across runs, in one SQLite file each; of others for a run that is stopped."""

import hashlib
import logging
import sqlite3
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import compress, islice, pairwise, tee
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.begun_blocks import BegunBlock
from hardneg.registry.protocols import LOCATION_OPTIONS, Reranker, TrainableReranker
from hardneg.rerankers.pair_scoring import Advance, PairScorer, Request, unheard
from hardneg.store.choices import cache_folder
from hardneg.store.digest import digest, tree_digest
from hardneg.store.identity import plugin_identity

if TYPE_CHECKING:
    from hardneg.rerankers.pair_scoring import Request

_log = logging.getLogger(__name__)

_AT_ONCE = 500
_PATIENCE = 60.0  # seconds to wait for another process that writes


class CachedScores:
    """Scores by content. Problems with the file cost time, not results: they are logged and scores are computed again.

    Several processes of one machine may use one file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=_PATIENCE)
            with self._file:
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS scores (pair BLOB PRIMARY KEY, score REAL) WITHOUT ROWID"
                )
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    @classmethod
    def of_plugin(cls, scorer: PairScorer, plugin: TrainableReranker, folder: Path | None) -> "CachedScores":
        """The scores of a reranker's network: the one saved in `folder`, or that of the plugin's options."""
        identity = plugin_identity(type(plugin).__qualname__, plugin, LOCATION_OPTIONS)
        return cls.of(scorer, {**identity, "content": tree_digest(folder) if folder else plugin.fingerprint()})

    @classmethod
    def of(cls, scorer: PairScorer, content: object) -> "CachedScores":
        """The scores of a network; content: its identity in JSON, weights and all options."""
        rounded = {"tf32": True} if scorer.options.tf32 else {}
        name = digest({"content": content, "half": scorer.half, "of": "logits", **rounded})
        return cls(cache_folder() / "scores" / f"{name}.sqlite")

    def find(self, pairs: Sequence[bytes]) -> NDArray[np.float32]:
        """float32 [n], nan for pairs that are not known."""
        known: dict[bytes, float] = {}
        for start in range(0, len(pairs), _AT_ONCE):
            part = pairs[start : start + _AT_ONCE]
            known.update(
                self._rows(f"SELECT pair, score FROM scores WHERE pair IN ({', '.join('?' * len(part))})", part)
            )
        return np.array([known.get(pair, np.nan) for pair in pairs], np.float32)

    def keep(self, pairs: Sequence[bytes], scores: Sequence[float]) -> None:
        """Adds the scores of some pairs, all or none."""
        if self._file is None:
            return
        try:
            with self._file:
                self._file.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?)", zip(pairs, scores, strict=True))
        except sqlite3.Error as error:
            self._give_up(error)

    def _rows(self, query: str, values: Sequence[bytes]) -> list[tuple[bytes, float]]:
        if self._file is None:
            return []
        try:
            return self._file.execute(query, values).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        _log.warning("%s: scores are not kept (%s); remove the file if it is damaged", self._path, error)
        self._file = None


@dataclass(frozen=True)
class _Looked:
    """A block whose known scores were looked up.

    pairs: of all requests. scores: float32 [pairs], nan where unknown. pending: bool [pairs], those that are scored for
    this block; the other unknown ones are scored for the block before it.
    """

    requests: Sequence[Request]
    pairs: Sequence[bytes]
    scores: NDArray[np.float32]
    pending: NDArray[np.bool_]

    def lacking(self) -> Iterator[Request]:
        """All requests, with the documents alone that are to be scored."""
        start = 0
        for query, documents in self.requests:
            wanted = self.pending[start : start + len(documents)].tolist()
            start += len(documents)
            yield query, [text for text, new in zip(documents, wanted, strict=True) if new]

    def finished(self, new_scores: Sequence[float], before: Mapping[bytes, float]) -> Iterator[Sequence[float]]:
        """The scores of each request, with the new ones of this block and of the one `before` it."""
        self.scores[self.pending] = new_scores
        for position in np.flatnonzero(np.isnan(self.scores)).tolist():
            self.scores[position] = before[self.pairs[position]]
        ends = np.cumsum([len(documents) for _, documents in self.requests])
        return (part.tolist() for part in np.split(self.scores, ends)[:-1])


@dataclass(frozen=True)
class CachedScorer:
    """Scores the pairs that are not known yet, and keeps their scores."""

    scorer: PairScorer
    kept: CachedScores

    def rerank_blocks(
        self, blocks: Iterable[Iterable[Request]], advance: Advance = unheard
    ) -> Iterator[Sequence[float]]:
        """Yields one score a document, in order; those of a block are kept before the first one is yielded.

        One block is scored while the next is looked up. `advance` is called with the pairs of each batch.
        """
        looked, ahead = tee(self._looked_up(blocks))
        answers = self.scorer.logits((block.lacking() for block in ahead), advance)
        before: dict[bytes, float] = {}
        for block in looked:
            new_scores = [score for scores in islice(answers, len(block.requests)) for score in scores]
            done = block.finished(new_scores, before)
            before = dict(zip(compress(block.pairs, block.pending), new_scores, strict=True))
            if before:
                self.kept.keep(list(before), list(before.values()))
            yield from map(self.scorer.network.activated, done)

    def _looked_up(self, blocks: Iterable[Iterable[Request]]) -> Iterator[_Looked]:
        under_way: set[bytes] = set()
        for requests in map(list, blocks):
            known_by = (f"{len(query)}\0{query}{text}" for query, documents in requests for text in documents)
            pairs = [hashlib.blake2b(text.encode(), digest_size=16).digest() for text in known_by]
            scores = self.kept.find(pairs)
            pending = np.isnan(scores) & np.array([pair not in under_way for pair in pairs], bool)
            yield _Looked(requests, pairs, scores, pending)
            under_way = set(compress(pairs, pending))


_Waiting = tuple[BegunBlock, NDArray[np.int64], Sequence[float] | None]
"""The block of a request, the positions of its pairs there, and its scores where they are known."""


def kept_answers(
    reranker: Reranker, blocks: "Iterable[tuple[str, Sequence[Request]]]", folder: Path
) -> Iterator[Sequence[float]]:
    """Yields the scores of each request of all blocks, in order, from the reranker or from before a stop.

    The reranker gets the open requests as one stream, and may read ahead. A query without documents has no scores and
    is skipped.

    Args:
        reranker: scores documents.
        blocks: the name of each, which is the same after a stop, and its requests.
        folder: keeps the scores of unfinished blocks.
    """
    waiting = deque[_Waiting]()
    left = _unanswered(blocks, folder, waiting)
    for scores in reranker.rerank(left):
        yield from _known(waiting)
        if waiting:
            begun, positions, _ = waiting.popleft()
            if len(scores) == len(positions):
                begun.add(positions, np.asarray(scores, np.float64))
        yield scores
    for _ in left:  # a reranker may stop before the last
        pass
    yield from _known(waiting)


def _unanswered(
    blocks: "Iterable[tuple[str, Sequence[Request]]]", folder: Path, waiting: deque[_Waiting]
) -> "Iterator[Request]":
    """Yields the open requests, and appends all requests to `waiting`, in order."""
    for name, requests in blocks:
        edges = np.cumsum([0, *(len(documents) for _, documents in requests)])
        positions = [np.arange(*edge) for edge in pairwise(edges)]
        begun = BegunBlock(folder, name, int(edges[-1]))
        left = {int(some[0]) for some in begun.left(positions)}
        known = iter(np.asarray(() if (whole := begun.whole()) is None else whole).tolist())
        for some, request in zip(positions, requests, strict=True):
            new = len(some) > 0 and int(some[0]) in left
            waiting.append((begun, some, None if new else [next(known) for _ in some]))
            if new:
                yield request


def _known(waiting: deque[_Waiting]) -> Iterator[Sequence[float]]:
    """The scores that are known, up to the first request that is not."""
    while waiting and (scores := waiting[0][2]) is not None:
        waiting.popleft()
        yield scores
