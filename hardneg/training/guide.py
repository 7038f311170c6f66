"""A guide: the vectors of another model, whose scores mask a batch's negatives or teach the model."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hardneg.indexes.kernels.candidate_scoring import encoded_rows
from hardneg.records.errors import UsageError
from hardneg.registry.protocols import DenseSearcher, StoredSearcher


@dataclass(frozen=True, eq=False)
class Guide:
    """A model that does not learn, as its vectors.

    documents: the index that it encoded. queries: float32 [Q, d], mapped, those of the training queries. name: a digest
    of what both come from.

    Source: Solatorio, GISTEmbed: Guided In-sample Selection of Training Negatives for Text Embedding Fine-tuning
    (2024), section 3; there the guide encodes each batch.
    """

    documents: StoredSearcher | DenseSearcher
    queries: NDArray[np.float32]
    name: str = field(default="")

    def of(
        self, queries: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The vectors of a batch: float32 [B, d] and [D, d].

        Args:
            queries: int64 [B], positions among the training queries.
            rows: int64 [D], rows of the corpus.

        Raises:
            UsageError: the index does not hold one vector a document.
        """
        return self.queries[queries], self._vectors(rows)

    def of_lists(self, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of each query's own documents, float32 [B, M]; queries int64 [B], rows int64 [B, M]."""
        vectors = self._vectors(rows.reshape(-1)).reshape(*rows.shape, -1)
        scores: NDArray[np.float32] = np.einsum("bmd,bd->bm", vectors, self.queries[queries])
        return scores

    def _vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        stored = encoded_rows(self.documents, rows)
        if not isinstance(stored, np.ndarray) or stored.shape[1] != self.queries.shape[1]:
            raise UsageError("guide: its index holds other vectors than its model makes: name another encode stage")
        return stored
