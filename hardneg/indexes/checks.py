"""Helpers for all indexes: input checks, blocks of vectors, and lists of hits."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatVectors
from hardneg.records import ArtifactError, Encoded, EncodedRows, Hits, UsageError


def check_vectors(index_type: str, queries: Sequence[str] | Encoded) -> NDArray[np.float32]:
    """Return `queries` unchanged. Raises UsageError, with `index_type`, unless there is one vector per query."""
    if isinstance(queries, EncodedRows):
        raise UsageError(f"a {index_type} index needs one vector per query; encode the queries with its model")
    if not isinstance(queries, np.ndarray):
        raise UsageError(f"a {index_type} index needs vectors, not texts; encode the queries first")
    return queries


def check_encoded(what: str, queries: Sequence[str] | Encoded) -> Encoded:
    """Return `queries` unchanged. Raises UsageError for texts; `what` is the subject of the message."""
    if not isinstance(queries, np.ndarray | EncodedRows):
        raise UsageError(f"{what} needs encoded queries, not texts; encode the queries first")
    return queries


def check_queries(queries: NDArray[np.float32], dimension: int, k: int) -> None:
    """Check queries float32 [Q, dimension] and k. Raises UsageError for another shape, nan, inf, or k below 1."""
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise UsageError(f"queries must have shape [n, {dimension}], not {[*queries.shape]}; use the index's model")
    check_depth(k)
    if not np.isfinite(queries).all():
        row = int(np.flatnonzero(~np.isfinite(queries).all(1))[0])
        raise UsageError(f"the vector of query {row} (counting from 0) is not finite; check the model")


def check_depth(k: int) -> None:
    """Check the length of the lists. Raises UsageError if k is below 1."""
    if k < 1:
        raise UsageError(f"k is {k}; it must be at least 1")


def check_rows(rows: NDArray[np.int64], count: int) -> None:
    """Check rows int64 [n] of an index of `count` vectors. Raises UsageError for rows out of range, such as padding."""
    if rows.ndim != 1 or (len(rows) and (rows.min() < 0 or rows.max() >= count)):
        raise UsageError(f"rows must be a list of numbers from 0 to {count - 1}; remove any padding (-1)")


class DecodedRows:
    """Base class of searchers that decode documents from `store` (`hardneg.protocols.StoredSearcher`)."""

    store: Any

    def encoded(self, rows: NDArray[np.int64]) -> Any:
        """Decode the documents `rows`, int64 [n]. Raises UsageError for invalid rows, ArtifactError for bad files."""
        check_rows(rows, len(self.store))
        return self.store.gather(rows)


def vector_blocks(vectors: NDArray[np.float32] | FlatVectors, size: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """Yield each block's first row and up to `size` aligned vectors, float32 [n, d]; later blocks may reuse memory.

    Raises:
        ArtifactError: a vector is not finite; the message gives its row.
    """
    first, starts = getattr(vectors, "first_row", 0), range(0, len(vectors), size)
    if isinstance(vectors, FlatVectors):
        spaces = [np.empty((min(size, len(vectors)), vectors.dimension), np.float32) for _ in starts[:2]]
        reads = (partial(vectors.read, start, start + size, spaces[i % 2]) for i, start in enumerate(starts))
        blocks: Iterable[NDArray[np.float32]] = one_ahead(reads)
    else:
        parts = (vectors[start : start + size] for start in starts)
        blocks = (np.require(part, np.float32, ["C", "ALIGNED", "WRITEABLE"]) for part in parts)
    for start, block in zip(starts, blocks, strict=True):
        check_finite(block, range(first + start, first + start + len(block)))
        yield start, block


def one_ahead(jobs: Iterable[Callable[[], Any]]) -> Iterator[Any]:
    """Yield the result of each job while a thread runs the next job."""
    with ThreadPoolExecutor(1) as maker:
        left = iter(jobs)
        waiting = [maker.submit(job) for job in islice(left, 1)]
        while waiting:
            made = waiting.pop().result()
            waiting += [maker.submit(job) for job in islice(left, 1)]
            yield made


def check_finite(block: NDArray[np.float32], rows: Sequence[int] | NDArray[np.int64]) -> None:
    """Check vectors float32 [n, d]. Raises ArtifactError with the number in `rows` of the first non-finite vector."""
    if not np.isfinite(block.sum()) and not (finite := np.isfinite(block).all(1)).all():
        row = rows[int(np.flatnonzero(~finite)[0])]
        raise ArtifactError(f"the vector in row {row} is not finite; re-encode the corpus")


def no_hits(queries: int, k: int) -> Hits:
    """Return hits [queries, k] with only padding: row -1 and score -inf."""
    return Hits(np.full((queries, k), -1, np.int64), np.full((queries, k), -np.inf, np.float32))


def in_order(rows: NDArray[np.int64], scores: NDArray[np.float32]) -> Hits:
    """Return hits [Q, k] sorted by descending score, then ascending row; padding with score -inf comes last."""
    order = np.lexsort((rows, -scores))
    return Hits(np.take_along_axis(rows, order, 1), np.take_along_axis(scores, order, 1))


def merged_lists(one: Hits, other: Hits) -> Hits:
    """Merge two disjoint lists per query, [Q, k] each, into the best k hits; ties are broken by ascending row."""
    k, pads = one.rows.shape[1], np.iinfo(np.int64).max
    rows, scores = np.concatenate([one.rows, other.rows], 1), np.concatenate([one.scores, other.scores], 1)
    hits = in_order(np.where(rows < 0, pads, rows), scores)
    return Hits(np.where(hits.rows == pads, -1, hits.rows)[:, :k], hits.scores[:, :k])
