"""Products of weights of terms by sparse matrices of scipy, which sum the terms of a pair in one order everywhere."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from hardneg.formats.vectors.sparse_store import fault
from hardneg.indexes.kernels.checks import check_depth
from hardneg.records.errors import UsageError
from hardneg.records.types import SparseRows


def check_weights(queries: SparseRows, width: int, k: int = 1) -> None:
    """Checks queries over `width` terms and how many hits are wanted.

    Raises:
        UsageError: for another number of terms, weights that are not sound, or k below 1.
    """
    if queries.width != width:
        raise UsageError(f"queries have {queries.width} terms instead of {width}: use the index's model")
    check_depth(k)
    if problem := fault(queries):
        raise UsageError(f"queries: {problem}: check the model")


def as_matrix(rows: SparseRows) -> Any:
    """The `scipy.sparse.csr_array` [n, width] of weights; the arrays are shared."""
    return csr_array((rows.weights, rows.terms, rows.offsets), shape=(len(rows), rows.width))


def weight_products(queries: SparseRows, documents: SparseRows) -> NDArray[np.float32]:
    """The inner product of each query with each document: float32 [Q, D].

    Raises:
        UsageError: they have other terms, or queries that are not sound.
    """
    check_weights(queries, documents.width)
    products: NDArray[np.float32] = (as_matrix(queries) @ as_matrix(documents).T.tocsr()).toarray()
    return products


def weight_pairs(queries: SparseRows, documents: SparseRows) -> NDArray[np.float32]:
    """The inner product of each query with the document beside it: float32 [n].

    Raises:
        UsageError: they have other terms, or queries that are not sound.
    """
    check_weights(queries, documents.width)
    products: NDArray[np.float32] = (as_matrix(queries) * as_matrix(documents)).sum(1, dtype=np.float32)
    return products
