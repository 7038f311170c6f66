"""Exact search over token vectors: MaxSim of all queries with every document, in one pass over the file."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.plugin import ExactOptions, errors, index_checks, records, runtime, top_k
from hardneg_multi_vector.store import TokenStore, TokenVectors, spans

_HELD = 1 << 18  # document tokens in memory at a time
_READ = 1 << 14  # vectors copied to a device at a time
_TOKENS = 1 << 15  # padded document tokens of the pairs that are scored at a time


def check_tokens(queries: Any, dimension: int, k: int = 1) -> TokenVectors:
    """Return the queries. Raises UsageError unless they are finite token vectors [n, dimension] and k is at least 1."""
    if not isinstance(queries, TokenVectors):
        raise errors.UsageError(
            "a multi-vector index needs queries with one vector per token; use the model that encoded it"
        )
    if queries.vectors.ndim != 2 or queries.vectors.shape[1] != dimension:
        shape = queries.vectors.shape
        raise errors.UsageError(
            f"token vectors of queries have shape {shape} instead of [n, {dimension}]; use the index's model"
        )
    index_checks.check_depth(k)
    if not np.isfinite(queries.vectors).all():
        token = int(np.flatnonzero(~np.isfinite(queries.vectors).all(1))[0])
        query = int(np.searchsorted(queries.offsets, token, "right")) - 1
        raise errors.UsageError(f"a token vector of query {query} (counted from 0) is not finite; check the model")
    return queries


def block_scores(documents: Tensor, counts: Tensor, queries: Tensor, query_counts: Tensor) -> Tensor:
    """Compute the MaxSim score of each query with each document.

    documents: float32 [T, d], the vectors of all documents in sequence. queries: float32 [d, S], the vectors of all
    queries in sequence, as columns. counts, query_counts: int64 [D] and [Q], vectors per document or query, at least 1.
    Returns float32 [Q, D].
    """
    nearest = torch.segment_reduce(documents @ queries, "max", lengths=counts, axis=0, unsafe=True)
    return torch.segment_reduce(nearest.T.contiguous(), "sum", lengths=query_counts, axis=0, unsafe=True)


def maxsim_matrix(queries: TokenVectors, documents: TokenVectors) -> NDArray[np.float32]:
    """Compute MaxSim of all pairs, float32 [Q, D]; -inf for empty texts. Raises UsageError for invalid queries."""
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
    """Compute MaxSim of query i with document i for all i, float32 [n]; -inf if either has no tokens.

    queries, documents: n texts each. device: None uses the first GPU, or else the CPU. tokens: maximum number of padded
    tokens per batch; pairs of similar length are batched together.

    Raises UsageError if queries and documents differ in number or dimension, or a query is not finite.
    """
    check_tokens(queries, documents.vectors.shape[1])
    if len(queries) != len(documents):
        raise errors.UsageError(
            f"{len(queries)} queries cannot be paired with {len(documents)} documents; give one document per query"
        )
    options = ExactOptions(device=None if device is None else str(device))
    lengths = np.stack([np.diff(queries.offsets), np.diff(documents.offsets)])
    scores = np.full(len(queries), -np.inf, np.float32)
    with torch.inference_mode(), options.float32():
        for rows in _alike(lengths, tokens):
            query_vectors, document_vectors = (_padded(texts[rows], options.where) for texts in (queries, documents))
            marked = torch.from_numpy(np.arange(query_vectors.shape[1]) < lengths[0, rows, None]).to(options.where)
            nearest = torch.bmm(document_vectors, query_vectors.transpose(1, 2)).amax(1)
            scores[rows] = torch.where(marked, nearest, 0).sum(1).cpu().numpy()
    return scores


def _alike(lengths: NDArray[np.int64], tokens: int) -> Iterator[NDArray[np.int64]]:
    """Yield pairs to score together, int64 [n], without empty texts; lengths: int64 [2, N], of both texts."""
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
    """Pad texts to float32 [n, T, d] by repeating the last vector of each, which does not change any maximum."""
    lengths = np.diff(texts.offsets)[:, None]
    positions = texts.offsets[:-1, None] + np.minimum(np.arange(lengths.max(initial=0)), lengths - 1)
    return tensor(texts.vectors[positions]).to(device)


def tensor(vectors: NDArray[np.float32]) -> Tensor:
    """Convert vectors to a float32 tensor, copying them only if necessary."""
    return torch.from_numpy(np.require(vectors, np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"]))


@dataclass(frozen=True)
class TokenSearcher(index_checks.DecodedRows):
    """Base class for searchers of a `store` of multi-vector documents; `options` affect only speed and memory."""

    store: Any
    options: ExactOptions | None = field(default=None, kw_only=True)
    progress: runtime.Progress | None = field(default=None, kw_only=True)

    def using(self, options: ExactOptions, progress: runtime.Progress | None) -> Self:
        """Return a copy of the searcher with the given options and progress."""
        return replace(self, options=options, progress=progress)

    @cached_property
    def at_once(self) -> int:
        """The number of documents to decode at a time."""
        return max(1, _HELD // int(np.diff(self.store.offsets).max(initial=1)))


@dataclass(frozen=True)
class MultiVectorSearcher(TokenSearcher):
    """A searcher for exact MaxSim over a folder of token vectors; `progress` counts passages.

    If all vectors together take at most `options.resident` bytes, they stay on the device after the first search.
    """

    store: TokenStore
    resumes: ClassVar[bool] = True

    def search(self, queries: Any, k: int) -> records.Hits:
        """Return each query's k best documents by MaxSim, ties by row. Raises UsageError for invalid queries or k."""
        return search_tokens(self, check_tokens(queries, self.store.dimension, k), k)

    @cached_property
    def held(self) -> Tensor | None:
        """All vectors of the store, float32 [T, d], on the device; None if they exceed `options.resident` bytes."""
        vectors, options = self.store.vectors, self.options or ExactOptions()
        if 4 * len(vectors) * vectors.dimension > options.resident:
            return None
        rows = torch.empty((len(vectors), vectors.dimension), device=options.where)
        for start, block in index_checks.vector_blocks(vectors, _READ):
            rows[start : start + len(block)] = torch.from_numpy(block)
        return rows


def search_tokens(searcher: MultiVectorSearcher, queries: TokenVectors, k: int) -> records.Hits:
    """Return each query's k best documents by MaxSim; ties are broken by ascending row, also at rank k.

    A document without tokens is never a hit; a query without tokens has no hits. One block of documents is in memory at
    a time, unless the vectors of all documents are on the device already.

    searcher: searcher of the documents. queries: Q queries, already checked. k: length of each list; short lists are
    padded with row -1 and score -inf.

    Raises ArtifactError if stored vectors or scores are not finite.
    """
    store, options, held = searcher.store, searcher.options or ExactOptions(), searcher.held
    answered = np.flatnonzero(np.diff(queries.offsets))
    cpu, wanted = options.where.type == "cpu", queries[answered]
    products, most, size = (1 << 22, 1 << 15, 1024) if cpu else (1 << 28, 1 << 18, 8192)
    size = options.query_block or size
    # with few query tokens, longer blocks of documents fit in the same memory
    fitting = min(most, max(products // most, products // max(1, min(len(queries.vectors), size))))
    # the tokens of a part of the queries as columns, float32 [d, S], and how many each query has, int64 [Q]
    parts = [
        (
            tensor(part.vectors).to(options.where).T.contiguous(),
            torch.from_numpy(np.diff(part.offsets)).to(options.where),
        )
        for part in (wanted[start:stop] for start, stop in spans(wanted.offsets, size))
    ]
    best, done = top_k.BestRows(len(parts), k), 0
    tracked = (searcher.progress or runtime.Silent()).task("search", len(store), "passages")
    with torch.inference_mode(), options.float32(), tracked as task:
        for start, stop in store.spans(options.corpus_block or fitting):
            lengths = np.diff(store.offsets[start : stop + 1])
            counts = torch.from_numpy(lengths[lengths > 0]).to(options.where)
            if len(counts):
                block = _block(store, start, stop, held, options.where)
                for number, part in enumerate(parts):
                    best.add(number, block_scores(block, counts, *part), done)
            done += len(counts)
            task.advance(stop - start)
        top = best.hits(len(answered))
    hits = index_checks.no_hits(len(queries), k)
    # map positions among documents with tokens to rows; -1 stays
    hits.rows[answered] = np.append(np.flatnonzero(np.diff(store.offsets)), -1)[top.rows]
    hits.scores[answered] = top.scores
    return hits


def _block(store: TokenStore, start: int, stop: int, held: Tensor | None, device: torch.device) -> Tensor:
    first, last = int(store.offsets[start]), int(store.offsets[stop])
    if held is not None:
        return held[first:last]
    ((_, block),) = index_checks.vector_blocks(store.vectors.part(range(first, last)), last - first)
    return torch.from_numpy(block).to(device)
