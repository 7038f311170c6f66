"""Candidates for MaxSim: documents from a search among single vectors, pooled ones or those of tokens."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.formats.vectors.token_store import TokenStore
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.indexes.kernels.checks import DecodedRows, no_hits
from hardneg.indexes.kernels.exact.exact import ExactOptions, WithOptions, search_exact
from hardneg.indexes.kernels.max_passage import first_of_each
from hardneg.indexes.kernels.maxsim.exact_maxsim import MultiVectorSearcher, check_tokens, tensor
from hardneg.records.types import Encoded, Hits, TokenVectors
from hardneg.registry.protocols import StoredSearcher
from hardneg.runtime.progress import Progress

_QUERIES = 8192  # whose candidates are held at a time
_TOKENS = 1 << 16  # vectors of a block of documents; tokens of queries in one pass


Find = Callable[[TokenVectors, int], NDArray[np.int64]]
"""Returns n candidates of each query, int64 [Q, n], padded with -1."""


def search_candidates(searcher: StoredSearcher, queries: TokenVectors, k: int, count: int, find: Find) -> Hits:
    """Return the k documents of the largest MaxSim, by the vectors of `searcher`, among `count` candidates each."""
    hits = no_hits(len(queries), k)
    for start in range(0, len(queries) if count else 0, _QUERIES):
        part = queries[start : start + _QUERIES]
        ranked = rank_candidates(searcher, part, find(part, count), k)
        hits.rows[start : start + len(part)], hits.scores[start : start + len(part)] = ranked.rows, ranked.scores
    return hits


@dataclass(frozen=True)
class TwoStageSearcher(DecodedRows, WithOptions):
    """Finds `candidates` of a query, and ranks them by the token vectors of `exact`.

    They are those of the `pooled` vectors, or where there are none of the `nearest` vectors of each token.
    """

    exact: MultiVectorSearcher
    pooled: FlatVectors | None
    candidates: int
    nearest: int

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k candidates of the largest MaxSim with each query; ties by ascending row.

        Raises:
            UsageError: for texts, queries of another form or dimension or not finite, or k below 1.
        """
        wanted = check_tokens(queries, self.exact.store.dimension, k)
        count = min(max(k, self.candidates), len(self.exact.store))
        return search_candidates(self.exact, wanted, k, count, self._find)

    @property
    def store(self) -> TokenStore:
        """The token vectors of `exact`."""
        return self.exact.store

    @property
    def at_once(self) -> int:
        """How many documents to decode at a time."""
        return self.exact.at_once

    def _find(self, queries: TokenVectors, count: int) -> NDArray[np.int64]:
        options = self.options or ExactOptions()
        if self.pooled is not None:
            return by_pooled(self.pooled, queries, count, options, self.progress)
        return by_tokens(self.exact.store, queries, self.nearest, count, options)


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
        documents = np.searchsorted(store.offsets, hits.rows, "right") - 1
        documents[hits.rows < 0] = -1
        largest = first_of_each(Hits(documents, hits.scores), hits.rows.shape[1])
        last = np.maximum((hits.rows >= 0).sum(1) - 1, 0)
        floors: NDArray[np.float32] = np.take_along_axis(hits.scores, last[:, None], 1)[:, 0]
        candidates[start : start + step] = _ranked(largest, floors, part.offsets, count)
    return candidates


def _ranked(largest: Hits, floors: NDArray[np.float32], offsets: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The `count` best documents of each query, from the best score of each with each of its tokens."""
    token, slot = np.nonzero(largest.rows >= 0)
    owner = np.searchsorted(offsets, token, "right") - 1
    documents = largest.rows[token, slot]
    width = int(documents.max(initial=0)) + 1
    keys, pair = np.unique(owner * width + documents, return_inverse=True)
    gains = np.zeros(len(keys), np.float64)
    np.add.at(gains, pair, largest.scores[token, slot] - floors[token])
    return best_of_each(keys // width, keys % width, gains, (len(offsets) - 1, count))


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
