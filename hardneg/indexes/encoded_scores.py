"""Scores of encoded texts with each other, for every family of encoders."""

import numpy as np
from numpy.typing import NDArray

from hardneg.indexes.kernels.checks import check_queries
from hardneg.indexes.kernels.maxsim.maxsim_scores import maxsim_matrix, maxsim_pairs
from hardneg.indexes.kernels.sparse_products import weight_pairs, weight_products
from hardneg.records.errors import UsageError
from hardneg.records.types import Encoded, SparseRows, TokenVectors

_OTHERS = "queries and documents are encoded in different forms: use one model for both"


def score_matrix(queries: Encoded, documents: Encoded) -> NDArray[np.float32]:
    """Return the score of each query with each document: float32 [Q, D], for no more than fit into memory.

    Raises:
        UsageError: they are of different forms or sizes, or not finite.
    """
    if isinstance(queries, np.ndarray) and isinstance(documents, np.ndarray):
        check_queries(queries, documents.shape[1], 1)
        products: NDArray[np.float32] = queries @ documents.T
        return products
    if isinstance(queries, SparseRows) and isinstance(documents, SparseRows):
        return weight_products(queries, documents)
    if isinstance(queries, TokenVectors) and isinstance(documents, TokenVectors):
        return maxsim_matrix(queries, documents)
    raise UsageError(_OTHERS)


def score_pairs(queries: Encoded, documents: Encoded) -> NDArray[np.float32]:
    """Return the score of each query with the document beside it: float32 [n].

    Raises:
        UsageError: they are of different forms or sizes, or not finite.
    """
    if isinstance(queries, np.ndarray) and isinstance(documents, np.ndarray):
        check_queries(queries, documents.shape[1], 1)
        products: NDArray[np.float32] = np.einsum("nd,nd->n", documents, queries)
        return products
    if isinstance(queries, SparseRows) and isinstance(documents, SparseRows):
        return weight_pairs(queries, documents)
    if isinstance(queries, TokenVectors) and isinstance(documents, TokenVectors):
        return maxsim_pairs(queries, documents)
    raise UsageError(_OTHERS)
