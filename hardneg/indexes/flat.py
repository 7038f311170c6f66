"""The flat index: no structure but the vectors themselves, searched exactly."""

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.data.flat import FlatVectors
from hardneg.errors import UsageError
from hardneg.indexes.exact import ExactOptions, search_exact
from hardneg.progress import Progress
from hardneg.types import Hits


@dataclass(frozen=True)
class Flat:
    """Exact search over a dense index folder; the folder of vectors is the index."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "vectors"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Makes `path` an index of the vectors in folder `source`; files are shared where the disk can."""
        count = len(FlatVectors.open(source))
        path.mkdir(parents=True, exist_ok=True)
        for name in ("index", "docid"):
            _share(source / name, path / name)
        return count

    def open(self, path: Path, rows: Callable[[Sequence[str]], NDArray[np.int64]] | None = None) -> "FlatSearcher":
        """The vectors in folder `path`; a hit's row is the vector's, so `rows` is not asked."""
        return FlatSearcher(FlatVectors.open(path))


@dataclass(frozen=True)
class FlatSearcher:
    """Searches the vectors of a folder; `options` change the speed only, `progress` is told of each block."""

    vectors: FlatVectors
    options: ExactOptions | None = None
    progress: Progress | None = None

    def search(self, queries: Sequence[str] | NDArray[np.float32], k: int) -> Hits:
        """The best k vectors for queries float32 [Q, d], exactly; ties by ascending row.

        Raises:
            UsageError: for texts, or vectors of another dimension.
        """
        if not isinstance(queries, np.ndarray):
            raise UsageError("a flat index searches with vectors, not texts: encode the queries first")
        return search_exact(self.vectors, queries, k, self.options, self.progress)


def _share(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
