"""Encoded texts, by the form of the encoder's output: one vector, term weights, or a vector for each token."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, eq=False)
class SparseRows:
    """Term weights: n texts encoded by a learned sparse encoder.

    offsets: int64 [n + 1], where each text's weights begin, and their number. terms: int32 [offsets[n]], ascending
    within a text. weights: float32 [offsets[n]], none of them 0. width: how many terms there are.
    """

    offsets: NDArray[np.int64]
    terms: NDArray[np.int32]
    weights: NDArray[np.float32]
    width: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> "SparseRows":
        offsets, chosen = _taken(self.offsets, rows)
        return SparseRows(offsets, self.terms[chosen], self.weights[chosen], self.width)

    @classmethod
    def join(cls, parts: "Sequence[SparseRows]") -> Self:
        """All texts of the parts, of which there is one at least, in a row."""
        terms, weights = np.concatenate([part.terms for part in parts]), np.concatenate([p.weights for p in parts])
        return cls(_joined([part.offsets for part in parts]), terms, weights, parts[0].width)


@dataclass(frozen=True, slots=True, eq=False)
class TokenVectors:
    """A vector for each token: n texts encoded by a late-interaction encoder.

    offsets: int64 [n + 1], where each text's vectors begin, and their number. vectors: float32 [offsets[n], d].
    """

    offsets: NDArray[np.int64]
    vectors: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> "TokenVectors":
        offsets, chosen = _taken(self.offsets, rows)
        return TokenVectors(offsets, self.vectors[chosen])

    @classmethod
    def join(cls, parts: "Sequence[TokenVectors]") -> Self:
        """All texts of the parts, of which there is one at least, in a row."""
        return cls(_joined([part.offsets for part in parts]), np.concatenate([part.vectors for part in parts]))


Encoded = NDArray[np.float32] | SparseRows | TokenVectors
"""Encoded texts: float32 [n, d] with one vector each, term weights, or a vector for each token."""


def _taken(
    offsets: NDArray[np.int64], rows: slice | NDArray[np.int64]
) -> tuple[NDArray[np.int64], slice | NDArray[np.int64]]:
    if isinstance(rows, slice) and rows.step in (None, 1):
        start, stop, _ = rows.indices(len(offsets) - 1)
        kept = offsets[start : max(start, stop) + 1]
        return kept - kept[0], slice(int(kept[0]), int(kept[-1]))
    chosen = np.arange(len(offsets) - 1)[rows]
    lengths = offsets[chosen + 1] - offsets[chosen]
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return begins, np.repeat(offsets[chosen] - begins[:-1], lengths) + np.arange(begins[-1])


def _joined(parts: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.cumsum(np.concatenate([[0], *(np.diff(offsets) for offsets in parts)])).astype(np.int64)
