"""Scores that outlive a run: one SQLite file a network, in which a pair is known by the texts that it is made of."""

import hashlib
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.identity import digest
from hardneg.models.token_budget import cache_folder
from hardneg.rerankers.scoring import Advance, PairScorer, Request, unheard

_log = logging.getLogger(__name__)

_AT_ONCE = 500
_PATIENCE = 60.0  # seconds to wait for another process that writes


class KeptScores:
    """Scores by content. What goes wrong with the file costs time, not results: it is logged and scores are made anew.

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
    def of(cls, scorer: PairScorer, content: object) -> "KeptScores":
        """Those of a network; content: what names it in JSON, its weights and all its options."""
        name = digest({"content": content, "half": scorer.half})
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
class KeptScorer:
    """Scores the pairs that are not known yet, and keeps what it finds."""

    scorer: PairScorer
    kept: KeptScores

    def rerank(self, requests: Iterable[Request], advance: Advance = unheard) -> Iterator[Sequence[float]]:
        """One score a document, in the order given; all requests are held, and kept together.

        `advance` is told how many pairs each batch had.
        """
        block = list(requests)
        pairs = [_pair(query, text) for query, documents in block for text in documents]
        scores = self.kept.find(pairs)
        missing = np.flatnonzero(np.isnan(scores))
        if len(missing):
            asked = self.scorer.rerank(_lacking(block, np.isnan(scores)), advance)
            scores[missing] = np.concatenate([np.asarray(found, np.float32) for found in asked])
            self.kept.keep([pairs[place] for place in missing.tolist()], scores[missing].tolist())
        ends = np.cumsum([len(documents) for _, documents in block])
        yield from (part.tolist() for part in np.split(scores, ends)[:-1])


def _pair(query: str, text: str) -> bytes:
    return hashlib.blake2b(f"{len(query)}\0{query}{text}".encode(), digest_size=16).digest()


def _lacking(block: Sequence[Request], unknown: NDArray[np.bool_]) -> Iterator[Request]:
    start = 0
    for query, documents in block:
        wanted = unknown[start : start + len(documents)].tolist()
        start += len(documents)
        yield query, [text for text, new in zip(documents, wanted, strict=True) if new]
