"""Exact search among token vectors: MaxSim of all queries with every document, in one pass over the file."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from hardneg.formats.vectors.token_store import TokenStore
from hardneg.indexes.kernels.checks import DecodedRows, check_finite, no_hits
from hardneg.indexes.kernels.exact.exact import ExactOptions, WithOptions
from hardneg.indexes.kernels.exact.exact_torch import DeviceVectors
from hardneg.indexes.kernels.exact.top_k import BegunPass, best_hits, best_of, kept_best, merged
from hardneg.indexes.kernels.maxsim.maxsim_scores import block_scores, check_tokens, documents_at_once, tensor
from hardneg.records.types import Encoded, Hits, TokenVectors
from hardneg.runtime.float32_products import float32_products
from hardneg.runtime.progress import Silent


@dataclass(frozen=True)
class MultiVectorSearcher(DecodedRows, WithOptions):
    """Searches the token vectors of a folder; `options` change the speed only, `progress` counts the blocks.

    Vectors of no more than `options.resident` bytes stay on the device from the first search on.
    """

    store: TokenStore

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """The k documents of the largest MaxSim with each query, exactly; ties by ascending row.

        Raises:
            UsageError: for texts, queries of another form or dimension or not finite, or k below 1.
        """
        return search_tokens(self, check_tokens(queries, self.store.dimension, k), k)

    @property
    def settings(self) -> ExactOptions:
        """The device, and how many tokens of documents and of queries are multiplied at a time."""
        return self.options or ExactOptions()

    @cached_property
    def at_once(self) -> int:
        """How many documents to decode at a time."""
        return documents_at_once(self.store.offsets)

    @cached_property
    def held(self) -> DeviceVectors | None:
        """All vectors of the store, where they fit the device."""
        options, vectors = self.settings, self.store.vectors
        small = 4 * len(vectors) * vectors.dimension <= options.resident
        return DeviceVectors.load(vectors, options.where) if small else None


@dataclass(frozen=True)
class _Sizes:
    """Tokens of documents and of queries that are multiplied at a time."""

    documents: int
    queries: int

    @classmethod
    def of(cls, options: ExactOptions, query_tokens: int) -> "_Sizes":
        """For `query_tokens` in all: few of them take longer blocks of documents, within the same memory."""
        cpu = options.where.type == "cpu"
        products, most, queries = (1 << 22, 1 << 15, 1024) if cpu else (1 << 28, 1 << 18, 8192)
        queries = options.query_block or queries
        fitting = min(most, max(products // most, products // max(1, min(query_tokens, queries))))
        return cls(options.corpus_block or fitting, queries)


@dataclass(frozen=True)
class _QueryTokens:
    """Some of the queries: their tokens as columns, float32 [d, S], and how many each has, int64 [Q]."""

    vectors: Tensor
    counts: Tensor


def search_tokens(searcher: MultiVectorSearcher, queries: TokenVectors, k: int) -> Hits:
    """The k documents of the largest MaxSim with each query; ties by ascending row, at rank k too.

    A document without tokens is no hit, and a query without tokens has none. A block of documents is in memory at a
    time, and all of them where they are on the device already.

    Args:
        searcher: its documents.
        queries: Q of them, checked.
        k: how many; above the number of documents the lists are padded with row -1 and score -inf.

    Raises:
        ArtifactError: for vectors, or scores, that are not finite.
    """
    store, options, held = searcher.store, searcher.settings, searcher.held
    answered = np.flatnonzero(np.diff(queries.offsets))
    sizes = _Sizes.of(options, len(queries.vectors))
    parts = list(_parts(queries[answered], sizes.queries, options.where))
    begun = BegunPass(options.begun, sizes, k, queries.offsets, queries.vectors)
    best = [best_of(begun.state(number), options.where) for number in range(len(parts))]
    done = int(np.count_nonzero(np.diff(store.offsets[: begun.done + 1])))
    tracked = (searcher.progress or Silent()).task("search", len(store), "passages")
    with torch.inference_mode(), float32_products(options.where), tracked as task:
        begun.tell(task)
        for start, stop in store.spans(sizes.documents, begun.done):
            lengths = np.diff(store.offsets[start : stop + 1])
            counts = torch.from_numpy(lengths[lengths > 0]).to(options.where)
            if len(counts):
                block = _block(store, start, stop, held, options.where)
                scores = (block_scores(block, counts, part.vectors, part.counts) for part in parts)
                best[:] = [merged(mine, own, done, k) for mine, own in zip(best, scores, strict=True)]
            done += len(counts)
            begun.at(stop, lambda: (kept_best(mine, k) for mine in best))
            task.advance(stop - start)
        top = best_hits(best, len(answered), k)
    hits = no_hits(len(queries), k)
    # the numbers count the documents that have tokens; -1 stays
    hits.rows[answered] = np.append(np.flatnonzero(np.diff(store.offsets)), -1)[top.rows]
    hits.scores[answered] = top.scores
    return hits


def _parts(queries: TokenVectors, size: int, device: torch.device) -> Iterator[_QueryTokens]:
    """Whole queries, with about `size` tokens together."""
    start = 0
    while start < len(queries):
        stop = int(np.searchsorted(queries.offsets, queries.offsets[start] + size, "right")) - 1
        stop = max(start + 1, stop)
        part = queries[start:stop]
        vectors = tensor(part.vectors).to(device).T.contiguous()
        yield _QueryTokens(vectors, torch.from_numpy(np.diff(part.offsets)).to(device))
        start = stop


def _block(store: TokenStore, start: int, stop: int, held: DeviceVectors | None, device: torch.device) -> Tensor:
    first, last = int(store.offsets[start]), int(store.offsets[stop])
    if held is not None:
        return held.rows[first:last]
    vectors = store.vectors.read(first, last)
    check_finite(vectors, range(first, last))
    return torch.from_numpy(vectors).to(device)
