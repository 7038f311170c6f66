"""Vectors that stay in the memory of a device between searches: read once, checked once."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.data.flat import FlatVectors
from hardneg.indexes.validation import vector_blocks

_ROWS = 16_384


@dataclass(frozen=True)
class DeviceVectors:
    """rows: float32 [N, d], finite."""

    rows: Tensor

    @classmethod
    def load(cls, vectors: FlatVectors, device: torch.device) -> "DeviceVectors":
        """All vectors of a folder, on `device`.

        Raises:
            ArtifactError: for a vector that is not finite, naming its row.
        """
        rows = torch.empty((len(vectors), vectors.dimension), device=device)
        for start, block in vector_blocks(vectors, _ROWS):
            rows[start : start + len(block)] = torch.from_numpy(block)
        return cls(rows)

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """A copy of these rows, int64 [n]: float32 [n, d]."""
        found: NDArray[np.float32] = self.rows[torch.from_numpy(rows).to(self.rows.device)].cpu().numpy()
        return found

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)
