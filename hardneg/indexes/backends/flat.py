"""The flat index: no structure but the vectors themselves, searched exactly."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_rows, check_vectors
from hardneg.indexes.kernels.exact.exact import DeviceVectors, ExactOptions, WithOptions, search_exact
from hardneg.protocols import RowLookup
from hardneg.records import Encoded, Hits
from hardneg.runtime import Progress


@dataclass(frozen=True)
class Flat:
    """Exact search over a dense index folder; the folder of vectors is the index."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "vectors"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Build an index of the vectors in folder `source` in folder `path`, by hard links where possible."""
        vectors = FlatVectors.open(source)
        vectors.link(path)
        return len(vectors)

    def open(self, path: Path, rows: RowLookup | None = None) -> "FlatSearcher":
        """Open the vectors in folder `path`; a hit's row is the vector's, and `rows` is unused."""
        return FlatSearcher(FlatVectors.open(path))


@dataclass(frozen=True)
class FlatSearcher(WithOptions):
    """Searches the vectors of a folder; `options` change the speed only, `progress` counts the blocks.

    An index of no more than `options.resident` bytes stays on the device from the first search on.
    """

    flat: FlatVectors

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The best k vectors for queries float32 [Q, d], exactly; ties by ascending row.

        Raises:
            UsageError: for texts, or vectors of another dimension.
        """
        return search_exact(self._held, check_vectors("flat", queries), k, self.options, self.progress)

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of these rows: int64 [n] to float32 [n, d].

        Raises:
            UsageError: for rows that are not in the index.
        """
        check_rows(rows, len(self.flat))
        if isinstance(self._held, DeviceVectors):
            return self._held.gather(rows)
        return self.flat.gather(rows)

    encoded = vectors

    @cached_property
    def _held(self) -> FlatVectors | DeviceVectors:
        options = self.options or ExactOptions()
        small = 4 * len(self.flat) * self.flat.dimension <= options.resident
        return DeviceVectors.load(self.flat, options.where) if small else self.flat
