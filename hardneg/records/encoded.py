"""Encoded texts, with one vector or with several numbers or vectors per text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class EncodedRows:
    """The base class for encodings of n texts with several numbers or vectors per text.

    The array fields of a subclass concatenate all texts; its other fields apply to all texts.

    offsets: int64 [n + 1], the start of each text in these arrays, followed by the arrays' length.
    """

    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: slice | NDArray[np.int64]) -> Self:
        offsets, chosen = taken(self.offsets, rows)
        return replace(self, offsets=offsets, **{name: array[chosen] for name, array in self.flat.items()})

    @property
    def flat(self) -> Mapping[str, NDArray[Any]]:
        """The arrays that `offsets` divides into texts, by field name."""
        return {name: each for name, each in vars(self).items() if isinstance(each, np.ndarray) and name != "offsets"}

    @classmethod
    def join(cls, parts: "Sequence[EncodedRows]") -> Self:
        """Concatenate the texts of one or more parts; fields that are not arrays come from the first part."""
        offsets = np.cumsum(np.concatenate([[0], *(np.diff(part.offsets) for part in parts)])).astype(np.int64)
        arrays = {name: np.concatenate([part.flat[name] for part in parts]) for name in parts[0].flat}
        return cls(**{**vars(parts[0]), "offsets": offsets, **arrays})

    def score_matrix(self, documents: Self) -> NDArray[np.float32]:
        """Return the score of each query of this object for each document: float32 [Q, D]; -inf for no hit."""
        raise NotImplementedError

    def score_pairs(self, documents: Self) -> NDArray[np.float32]:
        """Return the score of query i of this object for document i, for n pairs: float32 [n]; -inf for no hit."""
        raise NotImplementedError


Encoded = NDArray[np.float32] | EncodedRows
"""Encoded texts: float32 [n, d] with one vector each, or several numbers or vectors per text."""


def arrays_of(encoded: Encoded) -> dict[str, NDArray[Any]]:
    """Return the fields of encoded texts as arrays, by name; a single vector per text has the name `values`."""
    if isinstance(encoded, np.ndarray):
        return {"values": encoded}
    return {name: np.asarray(value) for name, value in vars(encoded).items()}


def encoded_of(arrays: Mapping[str, NDArray[Any]]) -> Encoded:
    """Rebuild encoded texts from the result of `arrays_of`. Raises StopIteration if no class has these fields."""
    if "values" in arrays:
        return arrays["values"]
    form = next(form for form in EncodedRows.__subclasses__() if {each.name for each in fields(form)} == {*arrays})
    return form(**{name: array if array.ndim else array.item() for name, array in arrays.items()})


def taken(
    offsets: NDArray[np.int64], rows: slice | NDArray[np.int64]
) -> tuple[NDArray[np.int64], slice | NDArray[np.int64]]:
    """Return the offsets of the texts `rows`, int64 [n + 1], and the positions of their array entries, for indexing."""
    if isinstance(rows, slice) and rows.step in (None, 1):
        start, stop, _ = rows.indices(len(offsets) - 1)
        kept = offsets[start : max(start, stop) + 1]
        return kept - kept[0], slice(int(kept[0]), int(kept[-1]))
    chosen = np.arange(len(offsets) - 1)[rows]
    lengths = offsets[chosen + 1] - offsets[chosen]
    begins = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    return begins, np.repeat(offsets[chosen] - begins[:-1], lengths) + np.arange(begins[-1])
