"""Vectors that outlive a run: one SQLite file a model, in which a vector is known by its text."""

import hashlib
import logging
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

_AT_ONCE = 500
_PATIENCE = 60.0  # seconds to wait for another process that writes
_KEPT_SHARE = 0.9  # of the most bytes: what is left when old vectors have gone
_log = logging.getLogger(__name__)

Vector = NDArray[np.float32]


def text_key(text: str) -> bytes:
    """What a text is known by: 32 bytes of its content."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).digest()


class VectorCache:
    """Vectors by texts, float32; what goes wrong with the file costs requests, not results, and is logged.

    Several processes and threads may use one file. A process that is killed leaves what it had written whole.
    """

    def __init__(self, path: Path, most_bytes: int) -> None:
        """most_bytes: of the file; when it is reached, the oldest vectors go."""
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
        """The vectors that are known, float32 [d], by their texts' keys."""
        cached: dict[bytes, Vector] = {}
        with self._lock:
            for start in range(0, len(keys), _AT_ONCE):
                part = keys[start : start + _AT_ONCE]
                marks = ", ".join("?" * len(part))
                rows = self._rows(f"SELECT text, vector FROM vectors WHERE text IN ({marks})", part)
                cached.update((key, np.frombuffer(vector, "<f4")) for key, vector in rows)
        return cached

    def keep(self, vectors: Mapping[bytes, Vector]) -> None:
        """Adds vectors, all or none; where the file would be too large, the oldest go."""
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
        """Ends the use of the file."""
        with self._lock:
            if self._file is not None:
                self._file.close()
            self._file = None

    def _make_room(self) -> None:
        """Deletes the oldest tenth of a file that is full; SQLite writes the next ones in their place."""
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
        _log.warning("%s: vectors are not kept (%s); remove the file if it is damaged", self._path, error)
        self._file = None
