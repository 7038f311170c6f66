"""Vectors of an index, block by block, each checked to be finite."""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.data.flat import FlatVectors
from hardneg.errors import ArtifactError


def vector_blocks(vectors: NDArray[np.float32] | FlatVectors, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The number of each block's first row and its rows, float32 [n, d], aligned; the next block overwrites it.

    Raises:
        ArtifactError: for a vector that is not finite, naming its row.
    """
    space = (
        np.empty((min(size, len(vectors)), vectors.dimension), np.float32) if isinstance(vectors, FlatVectors) else None
    )
    for start in range(0, len(vectors), size):
        stop = min(start + size, len(vectors))
        if isinstance(vectors, FlatVectors):
            block = vectors.read(start, stop, space)
        else:
            block = np.require(vectors[start:stop], np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
        check_finite(block, range(start, stop))
        yield start, block


def check_finite(block: NDArray[np.float32], rows: Sequence[int] | NDArray[np.int64]) -> None:
    """Checks float32 [n, d], the vectors of `rows`.

    Raises:
        ArtifactError: for a vector that is not finite, naming its row.
    """
    if not np.isfinite(block.sum()) and not (finite := np.isfinite(block).all(1)).all():
        row = rows[int(np.flatnonzero(~finite)[0])]
        raise ArtifactError(f"the vector in row {row} is not finite: encode the corpus again")
