"""Exact search with faiss on a CPU: its fused product and selection, span by span of the file.

A span of n rows after m others holds about k * n / (m + n) of a query's best k. Only that many and a margin are
asked of it, which is what makes spans cheap; a query for which these were too few is asked of the span again. faiss
leaves the order of equal scores open: lists are made one longer, and a query with a tie at rank k goes through torch.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import no_hits, vector_blocks
from hardneg.indexes.kernels.exact.begun_pass import State
from hardneg.indexes.kernels.exact.exact_torch import Blocks, DeviceVectors, Vectors, search_blocks
from hardneg.records.errors import ArtifactError
from hardneg.records.types import Hits
from hardneg.runtime.progress import Silent, Task

_TIED = Blocks(2048, 512, torch.device("cpu"))
_MARGIN = 3.0  # standard deviations that a span may hold more than expected


@dataclass
class _Part:
    """Some of the queries, float32 [q, d], and faiss's heap of their best so far."""

    queries: NDArray[np.float32]
    heap: Any

    @classmethod
    def of(cls, queries: NDArray[np.float32], depth: int, state: State | None) -> "_Part":
        import faiss

        heap = faiss.ResultHeap(len(queries), depth, keep_max=True)
        if state:
            heap.D[:], heap.I[:] = state["scores"], state["rows"]
        return cls(queries, heap)

    def state(self) -> State:
        """Of faiss the heap is to be kept as it is: which of equal scores it lets go hangs on its order."""
        return {"scores": self.heap.D, "rows": self.heap.I}


def search_spans(vectors: Vectors, queries: NDArray[np.float32], k: int, blocks: Blocks, task: Task) -> Hits:
    """Search as `hardneg.indexes.kernels.exact.exact.search_exact`, on the CPU; the arguments are checked.

    Raises:
        ArtifactError: for vectors, or inner products, that are not finite.
    """
    hits = no_hits(len(queries), k)
    depth = min(k + 1, len(vectors))
    queries = np.ascontiguousarray(queries, np.float32)
    starts = range(0, len(queries) if depth else 0, blocks.queries)
    chunks = [queries[start : start + blocks.queries] for start in starts]
    begun = blocks.pass_over(vectors, "faiss")
    parts = [_Part.of(chunk, depth, begun.state(number)) for number, chunk in enumerate(chunks)]
    begun.tell(task)
    for start, block in _spans(vectors, blocks.corpus, begun.done):
        for part in parts:
            _add(part, start, block, depth)
        begun.at(start + len(block), lambda: (part.state() for part in parts))
        task.advance(len(block))
    for start, part in zip(starts, parts, strict=True):
        rows, scores = _ranked(part, vectors, k)
        hits.rows[start : start + len(rows), : rows.shape[1]] = rows
        hits.scores[start : start + len(rows), : rows.shape[1]] = scores
    return hits


def _spans(vectors: Vectors, size: int, done: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The number of each span's first row and its rows; so many rows of a folder are left out, whole spans."""
    if isinstance(vectors, FlatVectors):
        rest = vectors.part(range(done, len(vectors)))
        yield from ((done + start, block) for start, block in vector_blocks(rest, size))
        return
    if not isinstance(vectors, DeviceVectors):
        yield from vector_blocks(vectors, size)
        return
    rows = vectors.rows.cpu().numpy()
    yield from ((start, rows[start : start + size]) for start in range(0, len(rows), size))


def _add(part: _Part, start: int, block: NDArray[np.float32], depth: int) -> None:
    """Takes up the best of a block whose first row is `start`."""
    share = len(block) / (start + len(block))
    width = int(depth * share + _MARGIN * (depth * share * (1 - share)) ** 0.5) + 4
    most = min(depth, len(block))
    width = most if start < depth else min(width, most)
    scores, rows = _best(part.queries, block, width)
    if width == most:
        part.heap.add_result(scores, rows + start)
        return
    before = part.heap.D.copy(), part.heap.I.copy()
    part.heap.add_result(scores, rows + start)
    if len(
        short := np.flatnonzero(scores[:, -1] > part.heap.D[:, 0])
    ):  # even the last that was asked of the span entered, so more of it may
        part.heap.D[short], part.heap.I[short] = before[0][short], before[1][short]
        scores, rows = _best(part.queries[short], block, most)
        part.heap.add_result_subset(short, scores, rows + start)


def _best(
    queries: NDArray[np.float32], block: NDArray[np.float32], width: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    import faiss

    scores, rows = faiss.knn(queries, block, width, metric=faiss.METRIC_INNER_PRODUCT)
    if (rows < 0).any() or not np.isfinite(scores).all():
        raise ArtifactError("inner products exceed the range of 32-bit numbers: scale the vectors down")
    return scores, rows


def _ranked(part: _Part, vectors: Vectors, k: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The best k of each query in order: int64 and float32 [q, k], narrower where there are fewer vectors."""
    part.heap.finalize()
    rows, scores = part.heap.I, part.heap.D
    equal = scores[:, 1:] == scores[:, :-1]
    for query in np.flatnonzero(equal.any(1)):
        rows[query] = rows[query, np.lexsort((rows[query], -scores[query]))]
    if rows.shape[1] > k and len(tied := np.flatnonzero(equal[:, k - 1])):
        with Silent().task("", None, "") as unseen:
            settled = search_blocks(vectors, part.queries[tied], k, _TIED, unseen)
        rows[tied, :k], scores[tied, :k] = settled.rows, settled.scores
    return rows[:, :k], scores[:, :k]
