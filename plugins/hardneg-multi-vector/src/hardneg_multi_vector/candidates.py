"""Candidates for MaxSim: by pooled vectors, by the nearest vectors of a query's tokens, or by lists of centroids.

Source of the last: K. Santhanam et al., PLAID (CIKM 2022), section 4.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.plugin import (
    ExactOptions,
    FlatVectors,
    FlatWriter,
    Hits,
    Progress,
    Searcher,
    index_checks,
    rank_candidates,
    search_exact,
)
from hardneg_multi_vector.codes import TokenCodes
from hardneg_multi_vector.maxsim import TokenSearcher, check_tokens, tensor
from hardneg_multi_vector.store import TokenStore, TokenVectors, ranges, token_positions

_QUERIES = 8192  # whose candidates are held at a time
_TOKENS = 1 << 16  # vectors of a block of documents; tokens of queries in one pass
_LISTED = 1 << 22  # documents of lists that are looked at together
_PRODUCTS = 1 << 24  # of tokens of queries with centroids, held at a time
_SCORED = 1 << 17  # tokens of documents that are scored together

Find = Callable[[TokenVectors, int], NDArray[np.int64]]
"""Returns n candidates of each query, int64 [Q, n], padded with -1."""


def search_candidates(searcher: Searcher, queries: TokenVectors, k: int, count: int, find: Find) -> Hits:
    """Return the k documents of the largest MaxSim, by the vectors of `searcher`, among `count` candidates each."""
    hits = index_checks.no_hits(len(queries), k)
    for start in range(0, len(queries) if count else 0, _QUERIES):
        part = queries[start : start + _QUERIES]
        ranked = rank_candidates(searcher, part, find(part, count), k)
        hits.rows[start : start + len(part)], hits.scores[start : start + len(part)] = ranked.rows, ranked.scores
    return hits


@dataclass(frozen=True)
class TwoStageSearcher(TokenSearcher):
    """Finds `candidates` of a query, and ranks them by their token vectors.

    They are those of the `pooled` vectors, or where there are none of the `nearest` vectors of each token.
    """

    store: TokenStore
    pooled: FlatVectors | None
    candidates: int
    nearest: int

    def search(self, queries: Any, k: int) -> Hits:
        """The k candidates of the largest MaxSim with each query; ties by ascending row.

        Raises:
            UsageError: for texts, queries of another form or dimension or not finite, or k below 1.
        """
        wanted = check_tokens(queries, self.store.dimension, k)
        count = min(max(k, self.candidates), len(self.store))
        return search_candidates(self, wanted, k, count, self._find)

    def _find(self, queries: TokenVectors, count: int) -> NDArray[np.int64]:
        options = self.options or ExactOptions()
        if self.pooled is not None:
            return by_pooled(self.pooled, queries, count, options, self.progress)
        return by_tokens(self.store, queries, self.nearest, count, options)


def pooled_vectors(texts: TokenVectors) -> NDArray[np.float32]:
    """The mean of each text's token vectors at length one: float32 [n, d]; zeros where there are no tokens."""
    lengths = torch.from_numpy(np.diff(texts.offsets))
    sums = torch.segment_reduce(tensor(texts.vectors), "sum", lengths=lengths, axis=0, unsafe=True)
    means: NDArray[np.float32] = torch.nn.functional.normalize(sums, dim=1).numpy()
    return means


def write_pooled(store: TokenStore, folder: Path, progress: Progress) -> None:
    """Writes the pooled vector of each document as a flat index."""
    with (
        FlatWriter(folder, store.dimension, len(store)) as writer,
        progress.task("pool", len(store), "passages") as task,
    ):
        for start, stop in store.spans(_TOKENS):
            writer.write(pooled_vectors(store.read(start, stop)))
            task.advance(stop - start)
        writer.write_doc_ids(store.doc_ids)
        writer.close()


def by_pooled(
    pooled: FlatVectors, queries: TokenVectors, count: int, options: ExactOptions, progress: Progress | None = None
) -> NDArray[np.int64]:
    """The `count` documents whose pooled vector is nearest to that of each query: int64 [Q, count], padded with -1."""
    return search_exact(pooled, pooled_vectors(queries), count, options, progress).rows


def by_tokens(
    store: TokenStore, queries: TokenVectors, nearest: int, count: int, options: ExactOptions
) -> NDArray[np.int64]:
    """The documents of the `nearest` vectors of each token of a query, the best `count` of them.

    A document is ranked by the sum over the query's tokens of its largest inner product with each. One that is not
    among a token's nearest counts with the last of them.

    Returns:
        int64 [Q, count], padded with -1.

    Source: Khattab and Zaharia, ColBERT (2020), section 3.6, for the union; J. Lee et al., Rethinking the Role of Token
    Retrieval in Multi-Vector Retrieval (2023), section 3.2, for documents that are not among the nearest.
    """
    candidates = np.full((len(queries), count), -1, np.int64)
    step = max(1, _TOKENS // max(1, int(np.diff(queries.offsets).max(initial=0))))
    for start in range(0, len(queries), step):
        part = queries[start : start + step]
        hits = search_exact(store.vectors, part.vectors, nearest, options)
        candidates[start : start + step] = _ranked(store, hits, part.offsets, count)
    return candidates


def _ranked(store: TokenStore, hits: Hits, offsets: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The `count` best documents of each query, from the nearest vectors of each of its tokens, best first."""
    token, slot = np.nonzero(hits.rows >= 0)
    documents = np.searchsorted(store.offsets, hits.rows[token, slot], "right") - 1
    _, first = np.unique(token * len(store) + documents, return_index=True)  # the best vector of a document
    token, slot, documents = token[first], slot[first], documents[first]
    last = np.maximum((hits.rows >= 0).sum(1) - 1, 0)
    floors = hits.scores[np.arange(len(last)), last]
    owner = np.searchsorted(offsets, token, "right") - 1
    keys, pair = np.unique(owner * len(store) + documents, return_inverse=True)
    gains = np.zeros(len(keys), np.float64)
    np.add.at(gains, pair, hits.scores[token, slot] - floors[token])
    return best_of_each(keys // len(store), keys % len(store), gains, (len(offsets) - 1, count))


def best_of_each(
    owner: NDArray[np.int64], documents: NDArray[np.int64], scores: NDArray[np.floating], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """The documents int64 [n] with the largest scores for each owner, as lists of `shape`, padded with -1."""
    order = np.lexsort((documents, -scores, owner))
    owner = owner[order]
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    kept = rank < shape[1]
    lists = np.full(shape, -1, np.int64)
    lists[owner[kept], rank[kept]] = documents[order][kept]
    return lists


@dataclass(frozen=True)
class CodedSearcher(TokenSearcher):
    """Finds `candidates` of a query in the lists of `probes` centroids a token, and ranks them by decoded vectors."""

    store: TokenCodes
    probes: int
    candidates: int

    def search(self, queries: Any, k: int) -> Hits:
        """The k candidates of the largest MaxSim with each query; ties by ascending row.

        Raises:
            UsageError: for texts, queries of another form or dimension or not finite, or k below 1.
        """
        wanted = check_tokens(queries, self.store.dimension, k)
        count = min(max(k, self.candidates), len(self.store))
        return search_candidates(
            self, wanted, k, count, lambda part, size: by_centroids(self.store, part, self.probes, size)
        )


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
    listed, begins = ranges(codes.list_offsets[centroid], codes.list_offsets[centroid + 1])
    query = np.repeat(np.searchsorted(offsets, token, "right") - 1, np.diff(begins))
    keys = np.unique(query * len(codes) + codes.lists[listed])
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
        stop = max(start + 1, int(np.searchsorted(ends, ends[start] + _SCORED, "right")) - 1)
        tokens, begins = token_positions(codes.offsets, documents[start:stop])
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
