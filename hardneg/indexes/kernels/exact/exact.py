"""Exact search: the k vectors of the largest inner product, whatever the size of the corpus, in torch, on any device.

A product block by block keeps a running best k. A package's faster way names the candidates of each block, with their
scores in float32, instead of the product.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_finite, check_queries, merged_lists, one_ahead, vector_blocks
from hardneg.indexes.kernels.exact.top_k import Best, best_hits, entered, merged
from hardneg.protocols import Searcher
from hardneg.records import Hits, UsageError
from hardneg.registry import faster
from hardneg.runtime import Progress, Silent, Task, world
from hardneg.runtime.devices import float32_products

_RESIDENT = 512 << 20  # bytes


@dataclass(frozen=True)
class ExactOptions:
    """Options of exact search; they change speed and memory, and the last bits of scores at most.

    corpus_block, query_block: how many vectors and queries are multiplied at a time; None fits the device.
    device: where to compute; None takes the GPUs, or the CPU where there are none. `cuda` is all GPUs where no other
        process shares the work, `cuda:1` is that one.
    resident: an index of no more bytes than this stays on the device between searches; a larger one is read again,
        block by block.
    expected: for how many queries is searched in all, some at a time, where one way is to search for all of them.
    """

    corpus_block: int | None = None
    query_block: int | None = None
    device: str | None = None
    resident: int = 0
    expected: int = 0

    @property
    def where(self) -> torch.device:
        """The device that searches run on, or the first of several."""
        return torch.device(self.device or ("cuda" if torch.cuda.is_available() else "cpu"))

    @property
    def everywhere(self) -> list[torch.device]:
        """All devices that one search of a folder runs on, each among a part of its vectors."""
        if self.where != torch.device("cuda") or world().size > 1:
            return [self.where]
        return [torch.device("cuda", number) for number in range(torch.cuda.device_count())]

    def float32(self) -> AbstractContextManager[None]:
        """Products of whole float32 numbers on the first device, inside the block."""
        return float32_products(self.where)

    def for_few(self) -> "ExactOptions":
        """For an index that is searched again and again with a hundred queries or less, as a training loop does.

        It may take 512 MiB, or three quarters of a GPU's free memory; a larger one is read for each search.
        """
        free = torch.cuda.mem_get_info(self.where)[0] if self.where.type == "cuda" else 0
        return replace(self, resident=max(_RESIDENT, free // 4 * 3))


@runtime_checkable
class ExactSearcher(Searcher, Protocol):
    """An opened index that takes options of where and how to search."""

    def using(self, options: ExactOptions, progress: Progress | None) -> Searcher:
        """Return the same searcher with these options, which change at most the last bits of scores, and a progress."""


@dataclass(frozen=True, kw_only=True)
class WithOptions:
    """A searcher with options of its speed and a progress (`ExactSearcher`)."""

    options: ExactOptions | None = None
    progress: Progress | None = None

    def using(self, options: ExactOptions, progress: Progress | None) -> Self:
        """Return the same searcher with these options and this progress."""
        return replace(self, options=options, progress=progress)


_ROWS = 16_384
_MANY = 32  # queries from which on oneDNN, which needs a block in a form of its own, is faster than torch's BLAS


@dataclass(frozen=True)
class DeviceVectors:
    """rows: float32 [N, d], finite."""

    rows: Tensor

    @classmethod
    def load(cls, vectors: FlatVectors, device: torch.device) -> "DeviceVectors":
        """All vectors of a folder, on `device`.

        Raises:
            ArtifactError: for a vector that is not finite, naming its row.
        """
        rows = torch.empty((len(vectors), vectors.dimension), device=device)
        for start, block in vector_blocks(vectors, _ROWS):
            rows[start : start + len(block)] = torch.from_numpy(block)
        return cls(rows)

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """A copy of these rows, int64 [n]: float32 [n, d]."""
        copied: NDArray[np.float32] = self.rows[torch.from_numpy(rows).to(self.rows.device)].cpu().numpy()
        return copied

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)


Vectors = NDArray[np.float32] | FlatVectors | DeviceVectors
"""The searched vectors; of a folder only a block is in memory."""


@dataclass(frozen=True)
class Blocks:
    """How many vectors and queries are multiplied at a time, and where; a package's way to candidates if any.

    expected: as in `ExactOptions`.
    """

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
    """The k vectors of the largest inner product with each query; ties by ascending row, at rank k too.

    Args:
        vectors: float32 [N, d]; with `FlatVectors` no more than a block is in memory; `Resident` ones are there.
        queries: float32 [Q, d].
        k: how many; above N the lists are padded with row -1 and score -inf.
        options: block sizes and devices.
        progress: counts the vectors that are done.

    Raises:
        UsageError: for another dimension, k below 1, or queries that are not finite.
        ArtifactError: for vectors, or inner products, that are not finite.
    """
    options = options or ExactOptions()
    check_queries(queries, vectors.shape[1] if isinstance(vectors, np.ndarray) else vectors.dimension, k)
    devices = options.everywhere
    package, shape = faster("search"), (max(options.expected, len(queries)), len(vectors), queries.shape[1])
    rough = None if package is None else package.rough_search(devices[0], *shape, k)
    blocks = _blocks(options, rough)
    tracked = (progress or Silent()).task("search", len(vectors), "passages")
    settings = nullcontext() if rough is None else rough.computing()
    with tracked as task, float32_products(blocks.device), settings:
        if len(devices) > 1 and len(vectors) > blocks.corpus and isinstance(vectors, FlatVectors):
            return _search_on(devices, partial(search_blocks, queries=queries, k=k), vectors, blocks, task)
        return search_blocks(vectors, queries, k, blocks, task)


def _blocks(options: ExactOptions, rough: Any) -> Blocks:
    device = options.where
    if rough is not None:
        usual = rough.corpus, rough.queries
    else:  # what fits a CPU's caches, and what fills a GPU's cores
        usual = (2048, 512) if device.type == "cpu" else (65536, 2048)
    sizes = zip((options.corpus_block, options.query_block), usual, strict=True)
    corpus, queries = (default if size is None else size for size, default in sizes)
    if min(corpus, queries) < 1:
        raise UsageError(f"block sizes must be at least 1, not {corpus} and {queries}")
    return Blocks(corpus, queries, device, rough, options.expected)


def spans(count: int, block: int, devices: int) -> list[range]:
    """The rows of each device: whole blocks, about as many for each; fewer spans where there are fewer blocks.

    So every block is multiplied as it would be on one device.
    """
    blocks = -(-count // block)
    edges = [min(blocks * number // devices * block, count) for number in range(devices + 1)]
    return [range(start, stop) for start, stop in pairwise(edges) if start < stop]


def _search_on(
    devices: Sequence[torch.device], search: Callable[..., Hits], vectors: FlatVectors, blocks: Blocks, task: Task
) -> Hits:
    """Search with each device among its span of the vectors, in a thread of its own; lists are merged, ties by row."""

    def part(rows: range, device: torch.device) -> Hits:
        hits = search(vectors.part(rows), blocks=replace(blocks, device=device), task=task)
        return Hits(np.where(hits.rows >= 0, hits.rows + rows.start, -1), hits.scores)

    dealt = spans(len(vectors), blocks.corpus, len(devices))
    with ThreadPoolExecutor(len(dealt)) as threads:
        return reduce(merged_lists, list(threads.map(part, dealt, devices)))


@dataclass
class _Part:
    """A part of the queries on a device, float32 [q, d], their best so far, and their way to candidates, if any."""

    queries: Tensor
    rough: Any = None
    best: Best | None = None

    def add(self, start: int, block: Any, k: int) -> None:
        """Takes up a block of vectors, or the tiles of one for the way to candidates."""
        if self.rough is None:
            plain = not block.is_mkldnn
            scores = self.queries @ block.T if plain else linear(self.queries.to_mkldnn(), block).to_dense()
            self.best = merged(self.best, scores, start, k)
            return
        found = self.rough.candidates(block, None if self.best is None else self.best.bar.view(-1))
        if self.best is None:  # a pad stays until there are k others: up to then the bar is -inf
            pad = self.queries.new_full((len(self.queries), 1), -torch.inf)
            self.best = Best(pad, torch.full_like(pad, -1, dtype=torch.int64), pad)
        if found is not None:
            query, row, score = found
            self.best = entered(self.best, query, row, score, k)


def search_blocks(vectors: Vectors, queries: NDArray[np.float32], k: int, blocks: Blocks, task: Task) -> Hits:
    """Search as `search_exact` on one device; the arguments are checked.

    Raises:
        ArtifactError: for vectors, or inner products, that are not finite.
    """
    device, way = blocks.device, blocks.rough
    with torch.inference_mode():
        starts = range(0, len(queries), blocks.queries)
        held = (to_device(queries[start : start + blocks.queries], device) for start in starts)
        parts = [_Part(some, None if way is None else way.part(some, k)) for some in held]
        onednn = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
        many = max(blocks.expected, len(queries)) >= _MANY
        by_onednn = onednn and device.type == "cpu" and many and way is None
        for start, block in device_blocks(vectors, blocks):
            shared = block.to_mkldnn() if by_onednn else block
            shared = shared if way is None else way.tiles(start, block)
            for part in parts:
                part.add(start, shared, k)
            task.advance(len(block))
        hits = best_hits([part.best for part in parts], len(queries), k)
        given_up = [part.rough.given_up.cpu().numpy() for part in parts if part.rough is not None]
    if given_up and len(again := np.flatnonzero(np.concatenate(given_up))):
        with Silent().task("", None, "") as unseen:
            redone = search_blocks(vectors, queries[again], k, replace(blocks, rough=None), unseen)
        hits.rows[again], hits.scores[again] = redone.rows, redone.scores
    return hits


def device_blocks(vectors: Vectors, blocks: Blocks) -> Iterator[tuple[int, Tensor]]:
    """The number of each block's first row and its rows, on the device; the next blocks may overwrite it."""
    if isinstance(vectors, DeviceVectors):
        starts = range(0, len(vectors), blocks.corpus)
        yield from ((start, vectors.rows[start : start + blocks.corpus].to(blocks.device)) for start in starts)
    elif blocks.device.type == "cuda":
        yield from copied_ahead(vectors, blocks.corpus, blocks.device)
    else:
        for start, rows in vector_blocks(vectors, blocks.corpus):
            yield start, torch.from_numpy(rows).to(blocks.device)


def to_device(block: NDArray[np.float32], device: torch.device) -> Tensor:
    copied = np.require(block, np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
    return torch.from_numpy(copied).to(device)


def copied_ahead(
    vectors: NDArray[np.float32] | FlatVectors, size: int, device: torch.device
) -> Iterator[tuple[int, Tensor]]:
    """The number of each block's first row and its rows, float32 [n, d], on the device; the next blocks overwrite it.

    A thread reads into pinned memory, copies on a stream of its own, and has the device check the numbers.

    Raises:
        ArtifactError: for a vector that is not finite, naming its row.
    """
    starts, on_gpu = range(0, len(vectors), size), device.type == "cuda"
    dimension = vectors.dimension if isinstance(vectors, FlatVectors) else vectors.shape[1]
    shape = (min(size, len(vectors)), dimension)
    rooms = [(torch.empty(shape, pin_memory=on_gpu), torch.empty(shape, device=device)) for _ in starts[:2]]
    side = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
    first = vectors.first_row if isinstance(vectors, FlatVectors) else 0

    def copy(number: int, free: torch.cuda.Event | None) -> Tensor:
        """Copy block `number` to the device; its buffer is free after an event, as it is multiplied until then."""
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
            if not there.sum().isfinite():  # reads from the device, and so waits for the copy
                check_finite(host.numpy(), range(first + start, first + stop))
        return there

    def queued() -> torch.cuda.Event | None:
        """Return an event after the work that this thread has queued; None where there is none to wait for."""
        if not on_gpu:
            return None
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(device))
        return event

    yield from zip(starts, one_ahead(partial(copy, number, queued()) for number in range(len(starts))), strict=True)
