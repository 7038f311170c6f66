"""Exact search: the k vectors of the largest inner product, whatever the size of the corpus."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import pairwise
from typing import Protocol, Self, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_queries, merged_lists
from hardneg.indexes.kernels.exact.exact_torch import Blocks, Vectors, search_blocks
from hardneg.records.errors import UsageError
from hardneg.records.types import Hits
from hardneg.registry.faster import RoughSearch, faster_search
from hardneg.registry.protocols import Searcher
from hardneg.runtime.distributed import world
from hardneg.runtime.float32_products import float32_products
from hardneg.runtime.progress import Progress, Silent, Task

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
    faster, shape = faster_search(), (max(options.expected, len(queries)), len(vectors), queries.shape[1])
    rough = None if faster is None else faster.rough_search(devices[0], *shape, k)
    blocks = _blocks(options, rough)
    tracked = (progress or Silent()).task("search", len(vectors), "passages")
    settings = nullcontext() if rough is None else rough.computing()
    with tracked as task, float32_products(blocks.device), settings:
        if len(devices) > 1 and len(vectors) > blocks.corpus and isinstance(vectors, FlatVectors):
            return _search_on(devices, partial(search_blocks, queries=queries, k=k), vectors, blocks, task)
        return search_blocks(vectors, queries, k, blocks, task)


def _blocks(options: ExactOptions, rough: RoughSearch | None) -> Blocks:
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
