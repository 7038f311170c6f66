"""A client of an embedding server, which validates responses, and a cache of vectors on disk."""

import hashlib
import json
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Event, Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg_http.server import ModelServer

Vector = NDArray[np.float32]
_BASE, _A_TEXT = 1, 1  # MiB of an answer


class EmbeddingClient(ModelServer):
    """A thread-safe client of one embedding server."""

    def embed(self, texts: Sequence[str], ended: Event | None = None) -> Vector:
        """Return the vectors of n texts, float32 [n, d]. Once `ended` is set, no further attempt starts.

        Raises ModelError if the server refuses, responds in another format, or misses the deadline.
        """
        content = self.post("/embeddings", {"input": list(texts)}, _BASE + len(texts) * _A_TEXT, ended)
        vectors = vectors_of(content, len(texts))
        if isinstance(vectors, str):
            raise self.error(f"invalid response from /v1/embeddings ({vectors})")
        return vectors


def vectors_of(body: bytes, count: int) -> Vector | str:
    """Return the vectors in a response, float32 [count, d], ordered by `index`, or a text that states the problem."""
    try:
        rows = json.loads(body)["data"]
        places, values = [row["index"] for row in rows], [row["embedding"] for row in rows]
    except (ValueError, TypeError, LookupError, RecursionError):
        return "not JSON with `data`, a list of objects with `index` and `embedding`"
    if len(rows) != count:
        return f"{len(rows)} vectors for {count} texts"
    if {*map(type, places)} != {int} or sorted(places) != list(range(count)):
        return f"the values of `index` are not 0 to {count - 1}, each once"
    if not all(isinstance(value, list) and {*map(type, value)} <= {int, float} for value in values):
        return "an `embedding` is not a list of numbers"
    if len(dimensions := {*map(len, values)}) > 1:
        return f"vectors of dimensions {' and '.join(map(str, sorted(dimensions)))} in one response"
    try:
        with np.errstate(over="ignore"):
            vectors = np.array(values, np.float64).astype(np.float32)[np.argsort(places)]
    except OverflowError:
        return "an `embedding` cannot be read as float32 numbers"
    return vectors if vectors.shape[1] and np.isfinite(vectors).all() else "a vector is empty or not finite"


_AT_ONCE = 500
_PATIENCE = 60.0  # seconds to wait for a writing process
_KEPT_SHARE = 0.9  # share of the maximum size that remains after a cleanup
_log = logging.getLogger(__name__)


def text_key(text: str) -> bytes:
    """Return the cache key of a text, a hash of 32 bytes."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


class VectorCache:
    """A file that caches float32 vectors by text hash. Its errors are logged and only cause additional requests.

    Several processes and threads may share a file, and a killed process leaves it intact.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        """Open or create the file. If its content exceeds `most_bytes`, the oldest vectors are deleted."""
        self._path, self._most, self._lock = path, most_bytes, Lock()
        self._file: sqlite3.Connection | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = sqlite3.connect(path, timeout=_PATIENCE, check_same_thread=False)
            with self._file:
                self._file.execute(
                    "CREATE TABLE IF NOT EXISTS vectors (number INTEGER PRIMARY KEY, text BLOB UNIQUE, vector BLOB)"
                )
        except (OSError, sqlite3.Error) as error:
            self._give_up(error)

    def find(self, keys: Sequence[bytes]) -> dict[bytes, Vector]:
        """Return the cached vectors, float32 [d] each, by key; keys that are not cached are omitted."""
        cached: dict[bytes, Vector] = {}
        with self._lock:
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                marks = ", ".join("?" * len(part))
                rows = self._rows(f"SELECT text, vector FROM vectors WHERE text IN ({marks})", part)
                cached.update((key, np.frombuffer(vector, "<f4")) for key, vector in rows)
        return cached

    def keep(self, vectors: Mapping[bytes, Vector]) -> None:
        """Add vectors, given by key, in one transaction. Delete the oldest ones if the file is too large."""
        with self._lock:
            if self._file is None:
                return
            rows = [(key, vector.astype("<f4").tobytes()) for key, vector in vectors.items()]
            try:
                with self._file:
                    self._file.executemany("INSERT OR IGNORE INTO vectors (text, vector) VALUES (?, ?)", rows)
                    self._make_room()
            except sqlite3.Error as error:
                self._give_up(error)

    def close(self) -> None:
        """Close the file. Later calls of `find` and `keep` have no effect."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None

    def _make_room(self) -> None:
        """Delete the oldest tenth of a full file; SQLite reuses the space."""
        pages, free, size = (
            int(self._rows(f"PRAGMA {name}")[0][0]) for name in ("page_count", "freelist_count", "page_size")
        )
        if (used := (pages - free) * size) <= self._most:
            return
        first, last = self._rows("SELECT min(number), max(number) FROM vectors")[0]
        share = 1 - _KEPT_SHARE * self._most / used
        self._rows("DELETE FROM vectors WHERE number <= ?", [first + int((last - first) * share)])

    def _rows(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        if self._file is None:
            return []
        try:
            return self._file.execute(query, list(values)).fetchall()
        except sqlite3.Error as error:
            self._give_up(error)
            return []

    def _give_up(self, error: Exception) -> None:
        _log.warning("%s: vectors are not cached (%s); delete the file if it is damaged", self._path, error)
        self._file = None
