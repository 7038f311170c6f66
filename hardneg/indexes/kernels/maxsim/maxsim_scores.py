"""MaxSim: scores of texts that have a vector for each token.

score(q, d) is the sum, over the tokens of q, of the largest inner product with a token of d (O. Khattab, M. Zaharia,
ColBERT, SIGIR 2020, Eq. 3). A text without tokens has no score: it is -inf.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.indexes.kernels.checks import check_depth
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.records.errors import UsageError
from hardneg.records.types import Encoded, TokenVectors
from hardneg.runtime.float32_products import float32_products

_HELD = 1 << 18  # tokens of documents, held at a time
_TOKENS = 1 << 15  # of documents, padded, whose pairs are scored at a time


def check_tokens(queries: Sequence[str] | Encoded, dimension: int, k: int = 1) -> TokenVectors:
    """The queries, which must have a vector for each token; k: how many hits are wanted.

    Raises:
        UsageError: they are texts or of another form or dimension, not finite, or k is below 1.
    """
    if not isinstance(queries, TokenVectors):
        raise UsageError("a multi-vector index searches with a vector for each token: use the model that encoded it")
    if queries.vectors.ndim != 2 or queries.vectors.shape[1] != dimension:
        shape = queries.vectors.shape
        raise UsageError(f"token vectors of queries have shape {shape} instead of [n, {dimension}]: use its own model")
    check_depth(k)
    if not np.isfinite(queries.vectors).all():
        token = int(np.flatnonzero(~np.isfinite(queries.vectors).all(1))[0])
        query = int(np.searchsorted(queries.offsets, token, "right")) - 1
        raise UsageError(f"a token vector of query {query} (from 0) is not finite: check the model")
    return queries


def documents_at_once(offsets: NDArray[np.int64]) -> int:
    """Return how many documents, whichever, fit at a time; offsets: int64 [N + 1], where each begins."""
    return max(1, _HELD // int(np.diff(offsets).max(initial=1)))


def block_scores(documents: Tensor, counts: Tensor, queries: Tensor, query_counts: Tensor) -> Tensor:
    """The score of each query with each document.

    Args:
        documents: float32 [T, d], the tokens of one document after the other.
        counts: int64 [D], how many each has, 1 at least.
        queries: float32 [d, S], the tokens of one query after the other, as columns.
        query_counts: int64 [Q], how many each has, 1 at least.

    Returns:
        float32 [Q, D].
    """
    nearest = torch.segment_reduce(documents @ queries, "max", lengths=counts, axis=0, unsafe=True)
    return torch.segment_reduce(nearest.T.contiguous(), "sum", lengths=query_counts, axis=0, unsafe=True)


def maxsim_matrix(queries: TokenVectors, documents: TokenVectors) -> NDArray[np.float32]:
    """The score of each query with each document: float32 [Q, D].

    Raises:
        UsageError: the dimensions differ, or a query is not finite.
    """
    check_tokens(queries, documents.vectors.shape[1])
    scores = np.full((len(queries), len(documents)), -np.inf, np.float32)
    query_lengths, lengths = np.diff(queries.offsets), np.diff(documents.offsets)
    if len(queries.vectors) and len(documents.vectors):
        products = block_scores(
            tensor(documents.vectors), torch.from_numpy(lengths[lengths > 0]),
            tensor(queries.vectors).T, torch.from_numpy(query_lengths[query_lengths > 0]),
        )  # fmt: skip
        scores[np.ix_(query_lengths > 0, lengths > 0)] = products.numpy()
    return scores


def maxsim_pairs(
    queries: TokenVectors, documents: TokenVectors, device: torch.device | None = None, tokens: int = _TOKENS
) -> NDArray[np.float32]:
    """The score of each query with the document beside it: float32 [n].

    Args:
        queries: n of them.
        documents: as many.
        device: where to compute; None takes the first GPU, or the CPU where there is none.
        tokens: how many of documents of about the same length are multiplied at a time.

    Raises:
        UsageError: there are more of one than of the other, the dimensions differ, or a query is not finite.
    """
    check_tokens(queries, documents.vectors.shape[1])
    if len(queries) != len(documents):
        raise UsageError(f"{len(queries)} queries cannot be paired with {len(documents)} documents")
    device = device or ExactOptions().where
    lengths = np.stack([np.diff(queries.offsets), np.diff(documents.offsets)])
    scores = np.full(len(queries), -np.inf, np.float32)
    with torch.inference_mode(), float32_products(device):
        for rows in _alike(lengths, tokens):
            query_vectors, document_vectors = (_padded(texts[rows], device) for texts in (queries, documents))
            marked = torch.from_numpy(np.arange(query_vectors.shape[1]) < lengths[0, rows, None]).to(device)
            nearest = torch.bmm(document_vectors, query_vectors.transpose(1, 2)).amax(1)
            scores[rows] = torch.where(marked, nearest, 0).sum(1).cpu().numpy()
    return scores


def _alike(lengths: NDArray[np.int64], tokens: int) -> Iterator[NDArray[np.int64]]:
    """Pairs to score together, int64 [n]; lengths: int64 [2, N], of queries and documents; without empty texts."""
    order = np.lexsort((lengths[0], lengths[1]))
    order = order[lengths[:, order].min(0, initial=1) > 0]
    width = lengths[:, order].max(0, initial=0)
    start = 0
    while start < len(order):
        most = max(1, tokens // int(width[start]))
        padded = np.maximum.accumulate(width[start : start + most]) * np.arange(1, len(width[start : start + most]) + 1)
        stop = start + max(1, int((padded <= tokens).sum()))
        yield order[start:stop]
        start = stop


def _padded(texts: TokenVectors, device: torch.device) -> Tensor:
    """Return float32 [n, T, d], padded with each text's last vector, which changes no maximum."""
    lengths = np.diff(texts.offsets)[:, None]
    positions = texts.offsets[:-1, None] + np.minimum(np.arange(lengths.max(initial=0)), lengths - 1)
    return tensor(texts.vectors[positions]).to(device)


def tensor(vectors: NDArray[np.float32]) -> Tensor:
    """The vectors as torch takes them, copied only where they must be."""
    return torch.from_numpy(np.require(vectors, np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"]))
