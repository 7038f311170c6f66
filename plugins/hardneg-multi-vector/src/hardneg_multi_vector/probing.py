"""Candidates for MaxSim by the centroids of tokens: lists to probe, then scores by centroids alone.

Source: K. Santhanam et al., PLAID (CIKM 2022), section 4.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.formats.hash_index import ranges
from hardneg.indexes.kernels.checks import DecodedRows
from hardneg.indexes.kernels.maxsim.codes import TokenCodes
from hardneg.indexes.kernels.maxsim.exact_maxsim import check_tokens, documents_at_once, tensor
from hardneg.indexes.kernels.maxsim.maxsim_candidates import best_of_each, search_candidates
from hardneg.records.types import Encoded, Hits, TokenVectors

_LISTED = 1 << 22  # documents of lists that are looked at together
_PRODUCTS = 1 << 24  # of tokens of queries with centroids, held at a time
_TOKENS = 1 << 17  # of documents that are scored together


@dataclass(frozen=True)
class CodedSearcher(DecodedRows):
    """Finds `candidates` of a query in the lists of `probes` centroids a token, and ranks them by decoded vectors."""

    store: TokenCodes
    probes: int
    candidates: int

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k candidates of the largest MaxSim with each query; ties by ascending row.

        Raises:
            UsageError: for texts, queries of another form or dimension or not finite, or k below 1.
        """
        wanted = check_tokens(queries, self.store.dimension, k)
        count = min(max(k, self.candidates), len(self.store))
        return search_candidates(
            self, wanted, k, count, lambda part, size: by_centroids(self.store, part, self.probes, size)
        )

    @cached_property
    def at_once(self) -> int:
        """How many documents to decode at a time."""
        return documents_at_once(self.store.offsets)


def by_centroids(codes: TokenCodes, queries: TokenVectors, probes: int, count: int) -> NDArray[np.int64]:
    """The `count` best documents in the lists of the `probes` centroids nearest to each token of a query.

    A document is scored by MaxSim with the centroids of its tokens.

    Returns:
        int64 [Q, count], padded with -1.
    """
    candidates = np.full((len(queries), count), -1, np.int64)
    centroids = tensor(codes.centroids)
    size = max(1, _PRODUCTS // (len(centroids) * max(1, int(np.diff(queries.offsets).max(initial=0)))))
    with torch.inference_mode():
        for start in range(0, len(queries), size):
            part = queries[start : start + size]
            products = tensor(part.vectors) @ centroids.T
            probed = products.topk(min(probes, len(centroids)), dim=1, sorted=False).indices.numpy()
            for first, last in _together(codes, part, probed):
                inside = slice(int(part.offsets[first]), int(part.offsets[last]))
                offsets = part.offsets[first : last + 1] - part.offsets[first]
                owner, documents = _listed(codes, offsets, probed[inside])
                scores = _scored(codes, offsets, products[inside], owner, documents)
                ranked = best_of_each(owner, documents, scores, (last - first, count))
                candidates[start + first : start + last] = ranked
    return candidates


def _together(codes: TokenCodes, queries: TokenVectors, probed: NDArray[np.int64]) -> Iterator[tuple[int, int]]:
    """Queries `first` to `last` in turn whose lists hold about `_LISTED` documents together."""
    lengths = codes.list_offsets[probed + 1] - codes.list_offsets[probed]
    ends = np.concatenate([[0], np.cumsum(lengths.sum(1))])[queries.offsets]
    first = 0
    while first < len(queries):
        last = max(first + 1, int(np.searchsorted(ends, ends[first] + _LISTED, "right")) - 1)
        yield first, last
        first = last


def _listed(
    codes: TokenCodes, offsets: NDArray[np.int64], probed: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Queries, ascending, and a document in one of their lists, each pair once; probed: int64 [T, probes]."""
    centroid = probed.reshape(-1)
    token = np.repeat(np.arange(len(probed)), probed.shape[1])
    listed, owner = ranges(codes.list_offsets[centroid], codes.list_offsets[centroid + 1])
    query = np.searchsorted(offsets, token, "right") - 1
    keys = np.unique(query[owner] * len(codes) + codes.lists[listed])
    return keys // len(codes), keys % len(codes)


def _scored(
    codes: TokenCodes,
    offsets: NDArray[np.int64],
    products: Tensor,
    owner: NDArray[np.int64],
    documents: NDArray[np.int64],
) -> NDArray[np.float32]:
    """MaxSim of each query with the document beside it, by centroids: float32 [n].

    products: float32 [T, K], of the queries' tokens with the centroids; each query's begin at `offsets`.
    """
    table = _table(products, offsets)
    scores = np.empty(len(owner), np.float32)
    ends = np.concatenate([[0], np.cumsum(codes.offsets[documents + 1] - codes.offsets[documents])])
    start = 0
    while start < len(owner):
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + _TOKENS, "right")) - 1)
        tokens, begins = codes.tokens(documents[start:stop])
        lengths = np.diff(begins)
        lines = np.repeat(owner[start:stop], lengths) * len(codes.centroids) + codes.numbers(tokens)
        near = torch.segment_reduce(
            table.index_select(0, torch.from_numpy(lines)), "max", lengths=torch.from_numpy(lengths), axis=0
        )
        scores[start:stop] = near.sum(1).numpy()
        start = stop
    return scores


def _table(products: Tensor, offsets: NDArray[np.int64]) -> Tensor:
    """float32 [Q * K, S]: for each query and centroid, the products with the query's tokens, then zeros."""
    lengths = np.diff(offsets)
    query = np.repeat(np.arange(len(lengths)), lengths)
    slot = np.arange(len(query)) - offsets[query]
    table = products.new_zeros(len(lengths), products.shape[1], int(lengths.max(initial=0)))
    table[torch.from_numpy(query), :, torch.from_numpy(slot)] = products
    return table.flatten(0, 1)
