"""Exact search: the k vectors with the largest inner products, for a corpus of any size, in torch, on any device.

The scores of each block of vectors update the best k so far. Another package may provide a faster search that returns
only the candidates in a block, with float32 scores.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes import checks, top_k
from hardneg.protocols import RowLookup, Searcher
from hardneg.records import Encoded, Hits, UsageError
from hardneg.registry import faster
from hardneg.runtime import Progress, Silent, Task, float32_products, world

_RESIDENT = 512 << 20  # bytes
_ROWS = 16_384
_MANY = 32  # queries from which oneDNN is faster than torch's BLAS, although it needs blocks in its own format


@dataclass(frozen=True)
class ExactOptions:
    """Options for exact search. They affect speed and memory, but scores at most in their last bits.

    corpus_block, query_block: number of vectors and queries to multiply at a time; the default depends on the device.
    device: device to compute on; None means all GPUs, or the CPU if there are none. `cuda` means all GPUs if no other
        process shares the work, `cuda:1` only that GPU.
    resident: size in bytes of the largest index that stays on the device between searches; a larger index is reread
        for each search, block by block.
    expected: total number of queries expected over all searches, which determines the method of each search.
    """

    corpus_block: int | None = None
    query_block: int | None = None
    device: str | None = None
    resident: int = 0
    expected: int = 0

    @property
    def where(self) -> torch.device:
        """The device that searches run on, or the first one if there are several."""
        return torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    @property
    def everywhere(self) -> list[torch.device]:
        """All devices that one search uses; each searches a part of the vectors."""
        if self.where != torch.device("cuda") or world().size > 1:
            return [self.where]
        return [torch.device("cuda", number) for number in range(torch.cuda.device_count())]

    def float32(self) -> AbstractContextManager[None]:
        """Return a context manager in which the first device computes products in full float32 precision."""
        return float32_products(self.where)

    def for_few(self) -> "ExactOptions":
        """Return options for many searches with few queries each, as in a training loop.

        An index of up to 512 MiB, or up to three quarters of a GPU's free memory if that is more, stays on the device.
        """
        free = torch.cuda.mem_get_info(self.where)[0] if self.where.type == "cuda" else 0
        return replace(self, resident=max(_RESIDENT, free // 4 * 3))


@runtime_checkable
class ExactSearcher(Searcher, Protocol):
    """An open index that accepts `ExactOptions`."""

    def using(self, options: ExactOptions, progress: Progress | None) -> Searcher:
        """Return this searcher with the given progress and options; scores change at most in their last bits."""


Vectors = NDArray[np.float32] | FlatVectors | Tensor
"""Vectors to search, float32 [N, d]: in memory, in a folder that is read block by block, or on a device."""


@dataclass(frozen=True)
class Blocks:
    """Block sizes and device of a search. rough: a package's faster kernel, or None. expected: as in `ExactOptions`."""

    corpus: int
    queries: int
    device: torch.device
    rough: Any = None
    expected: int = 0


def search_exact(
    vectors: Vectors,
    queries: NDArray[np.float32],
    k: int,
    options: ExactOptions | None = None,
    progress: Progress | None = None,
) -> Hits:
    """Return the k vectors with the largest inner products. Ties are broken by ascending row, including at rank k.

    Args:
        vectors: float32 [N, d]; for `FlatVectors`, only one block is in memory.
        queries: float32 [Q, d].
        k: length of the lists; if k is above N, lists are padded with row -1 and score -inf.
        options: block sizes and devices.
        progress: counts the searched vectors.

    Raises:
        UsageError: the dimensions differ, k or a block size is below 1, or a query is not finite.
        ArtifactError: a vector or an inner product is not finite.
    """
    options = options or ExactOptions()
    checks.check_queries(queries, vectors.dimension if isinstance(vectors, FlatVectors) else vectors.shape[1], k)
    devices, package = options.everywhere, faster("search")
    shape = max(options.expected, len(queries)), len(vectors), queries.shape[1]
    rough = None if package is None else package.rough_search(devices[0], *shape, k)
    blocks = _blocks(options, rough)
    tracked = (progress or Silent()).task("search", len(vectors), "passages")
    settings = nullcontext() if rough is None else rough.computing()
    with tracked as task, float32_products(blocks.device), settings:
        if len(devices) > 1 and len(vectors) > blocks.corpus and isinstance(vectors, FlatVectors):
            return _search_on(devices, partial(search_blocks, queries=queries, k=k), vectors, blocks, task)
        return search_blocks(vectors, queries, k, blocks, task)


def _blocks(options: ExactOptions, rough: Any) -> Blocks:
    if rough is not None:
        usual = rough.corpus, rough.queries
    else:  # what fits a CPU's caches, and what fills a GPU's cores
        usual = (2048, 512) if options.where.type == "cpu" else (65536, 2048)
    sizes = zip((options.corpus_block, options.query_block), usual, strict=True)
    corpus, queries = (default if size is None else size for size, default in sizes)
    if min(corpus, queries) < 1:
        raise UsageError(f"corpus_block and query_block must be at least 1, not {corpus} and {queries}")
    return Blocks(corpus, queries, options.where, rough, options.expected)


def spans(count: int, block: int, devices: int) -> list[range]:
    """Split `count` rows into at most `devices` ranges of whole blocks, so that products equal those on one device."""
    blocks = -(-count // block)
    edges = [min(blocks * number // devices * block, count) for number in range(devices + 1)]
    return [range(start, stop) for start, stop in pairwise(edges) if start < stop]


def _search_on(
    devices: Sequence[torch.device], search: Callable[..., Hits], vectors: FlatVectors, blocks: Blocks, task: Task
) -> Hits:
    """Search a span of the vectors on each device, in separate threads, and merge the lists, ties by row."""

    def part(rows: range, device: torch.device) -> Hits:
        hits = search(vectors.part(rows), blocks=replace(blocks, device=device), task=task)
        return Hits(np.where(hits.rows >= 0, hits.rows + rows.start, -1), hits.scores)

    dealt = spans(len(vectors), blocks.corpus, len(devices))
    with ThreadPoolExecutor(len(dealt)) as threads:
        return reduce(checks.merged_lists, list(threads.map(part, dealt, devices)))


@dataclass
class _Part:
    """Queries in the form of the blocks, float32 [q, d], their best hits so far, and a faster search, if any."""

    queries: Tensor
    rough: Any = None
    best: top_k.Best | None = None

    def add(self, start: int, block: Any, k: int) -> None:
        """Update the hits with a block of vectors, or with the candidates of the faster search."""
        if self.rough is None:
            scores = linear(self.queries, block).to_dense() if block.is_mkldnn else self.queries @ block.T
            self.best = top_k.merged(self.best, scores, start, k)
            return
        found = self.rough.candidates(block, None if self.best is None else self.best.bar.view(-1))
        if self.best is None:  # start with padding, which keeps the bar at -inf until there are k candidates
            pad = self.queries.new_full((len(self.queries), 1), -torch.inf)
            self.best = top_k.Best(pad, torch.full_like(pad, -1, dtype=torch.int64), pad)
        if found is not None:
            query, row, score = found
            self.best = top_k.entered(self.best, query, row, score, k)


def search_blocks(vectors: Vectors, queries: NDArray[np.float32], k: int, blocks: Blocks, task: Task) -> Hits:
    """Search on one device as `search_exact` does, but without checking the arguments.

    Raises:
        ArtifactError: a vector or an inner product is not finite.
    """
    device, way = blocks.device, blocks.rough
    with torch.inference_mode():
        starts = range(0, len(queries), blocks.queries)
        onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        many = max(blocks.expected, len(queries)) >= _MANY
        by_onednn = onednn and device.type == "cpu" and many and way is None
        held = (to_device(queries[start : start + blocks.queries], device) for start in starts)
        shaped = (some.to_mkldnn() if by_onednn else some for some in held)
        parts = [_Part(some, None if way is None else way.part(some, k)) for some in shaped]
        for start, block in device_blocks(vectors, blocks):
            shared = block.to_mkldnn() if by_onednn else block
            shared = shared if way is None else way.tiles(start, block)
            for part in parts:
                part.add(start, shared, k)
            task.advance(len(block))
        hits = top_k.best_hits([part.best for part in parts], len(queries), k)
        given_up = [part.rough.given_up.cpu().numpy() for part in parts if part.rough is not None]
    if given_up and len(again := np.flatnonzero(np.concatenate(given_up))):
        with Silent().task("", None, "") as unseen:
            redone = search_blocks(vectors, queries[again], k, replace(blocks, rough=None), unseen)
        hits.rows[again], hits.scores[again] = redone.rows, redone.scores
    return hits


def device_blocks(vectors: Vectors, blocks: Blocks) -> Iterator[tuple[int, Tensor]]:
    """Yield each block's first row and its vectors on the device, float32 [n, d]; later blocks may reuse the memory."""
    if isinstance(vectors, Tensor):
        starts = range(0, len(vectors), blocks.corpus)
        yield from ((start, vectors[start : start + blocks.corpus].to(blocks.device)) for start in starts)
    elif blocks.device.type == "cuda":
        yield from copied_ahead(vectors, blocks.corpus, blocks.device)
    else:
        for start, rows in checks.vector_blocks(vectors, blocks.corpus):
            yield start, torch.from_numpy(rows).to(blocks.device)


def to_device(block: NDArray[np.float32], device: torch.device) -> Tensor:
    """Return an array as a contiguous float32 tensor on a device; on the CPU, it shares memory where possible."""
    copied = np.require(block, np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
    return torch.from_numpy(copied).to(device)


def on_device(vectors: FlatVectors, device: torch.device) -> Tensor:
    """Return all vectors of a folder on a device: float32 [N, d].

    Raises:
        ArtifactError: a vector is not finite; the message gives its row.
    """
    rows = torch.empty((len(vectors), vectors.dimension), device=device)
    for start, block in checks.vector_blocks(vectors, _ROWS):
        rows[start : start + len(block)] = torch.from_numpy(block)
    return rows


def copied_ahead(
    vectors: NDArray[np.float32] | FlatVectors, size: int, device: torch.device
) -> Iterator[tuple[int, Tensor]]:
    """Yield each block's first row and up to `size` vectors on the device, float32 [n, d]; later blocks reuse memory.

    A thread reads into pinned memory and copies on a separate stream; the device checks that all numbers are finite.

    Raises:
        ArtifactError: a vector is not finite; the message gives its row.
    """
    starts, on_gpu = range(0, len(vectors), size), device.type == "cuda"
    dimension = vectors.dimension if isinstance(vectors, FlatVectors) else vectors.shape[1]
    shape = (min(size, len(vectors)), dimension)
    rooms = [(torch.empty(shape, pin_memory=on_gpu), torch.empty(shape, device=device)) for _ in starts[:2]]
    side = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
    first = vectors.first_row if isinstance(vectors, FlatVectors) else 0

    def copy(number: int, free: torch.cuda.Event | None) -> Tensor:
        """Copy block `number` to the device once the event `free` signals that the buffer is no longer in use."""
        start, stop = starts[number], min(starts[number] + size, len(vectors))
        host, there = (room[: stop - start] for room in rooms[number % 2])
        if isinstance(vectors, FlatVectors):
            vectors.read(start, stop, host.numpy())
        else:
            host.numpy()[:] = vectors[start:stop]
        with torch.inference_mode(), torch.cuda.stream(side):
            if side is not None and free is not None:
                side.wait_event(free)
            there.copy_(host, non_blocking=True)
            if not there.sum().isfinite():  # reading from the device waits for the copy
                checks.check_finite(host.numpy(), range(first + start, first + stop))
        return there

    def queued() -> torch.cuda.Event | None:
        """Return an event recorded after this thread's queued work; None on devices without asynchronous work."""
        if not on_gpu:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(device))
        return event

    jobs = (partial(copy, number, queued()) for number in range(len(starts)))
    yield from zip(starts, checks.one_ahead(jobs), strict=True)


@dataclass(frozen=True)
class Flat:
    """Exact search over a dense index folder; the folder of vectors is the index."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "vectors"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Link or copy the vectors in folder `source` into folder `path`; return the number of vectors."""
        vectors = FlatVectors.open(source)
        vectors.link(path)
        return len(vectors)

    def open(self, path: Path, rows: RowLookup | None = None) -> "FlatSearcher":
        """Open the vectors in folder `path`. Hits are already vector rows, so the id lookup `rows` is not used."""
        return FlatSearcher(FlatVectors.open(path))


@dataclass(frozen=True)
class FlatSearcher:
    """A searcher for the vectors in a folder (`ExactSearcher`). `progress` counts the searched vectors.

    An index of at most `options.resident` bytes stays on the device after the first search.
    """

    flat: FlatVectors
    options: ExactOptions | None = None
    progress: Progress | None = None

    def using(self, options: ExactOptions, progress: Progress | None) -> "FlatSearcher":
        """Return this searcher with the given options and progress."""
        return replace(self, options=options, progress=progress)

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Return the best k vectors for queries float32 [Q, d], exactly; ties are broken by ascending row.

        Raises:
            UsageError, ArtifactError: as in `search_exact`; also UsageError if the queries are not vectors.
        """
        return search_exact(self._held, checks.check_vectors("flat", queries), k, self.options, self.progress)

    def vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors in `rows`, int64 [n]: float32 [n, d].

        Raises:
            UsageError: a row is not in the index.
        """
        checks.check_rows(rows, len(self.flat))
        if isinstance(held := self._held, FlatVectors):
            return held.gather(rows)
        gathered: NDArray[np.float32] = held[torch.from_numpy(rows).to(held.device)].cpu().numpy()
        return gathered

    encoded = vectors

    @cached_property
    def _held(self) -> FlatVectors | Tensor:
        options = self.options or ExactOptions()
        small = 4 * len(self.flat) * self.flat.dimension <= options.resident
        return on_device(self.flat, options.where) if small else self.flat
