"""Vectors that stay in the memory of a device between searches: read once, checked once."""

from dataclasses import dataclass

import torch
from torch import Tensor

from hardneg.data.flat import FlatVectors
from hardneg.indexes.vector_blocks import vector_blocks

_ROWS = 16_384


@dataclass(frozen=True)
class Resident:
    """rows: float32 [N, d], finite."""

    rows: Tensor

    @classmethod
    def load(cls, vectors: FlatVectors, device: torch.device) -> "Resident":
        """All vectors of a folder, on `device`.

        Raises:
            ArtifactError: for a vector that is not finite, naming its row.
        """
        rows = torch.empty((len(vectors), vectors.dimension), device=device)
        for start, block in vector_blocks(vectors, _ROWS):
            rows[start : start + len(block)] = torch.from_numpy(block)
        return cls(rows)

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)
