"""Exact search on several devices at once: each has some of the blocks, in a row, and a best k of its own of them."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import reduce

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import merged_lists
from hardneg.indexes.kernels.exact.exact_torch import Blocks
from hardneg.indexes.kernels.exact.rounding import sums_in_float32
from hardneg.records.types import Hits
from hardneg.runtime.progress import Task

Search = Callable[[FlatVectors, NDArray[np.float32], int, Blocks, Task], Hits]


def spans(count: int, block: int, devices: int) -> list[range]:
    """The rows of each device: whole blocks, about as many for each; fewer spans where there are fewer blocks.

    So every block is multiplied as it would be on one device.
    """
    blocks = -(-count // block)
    edges = [blocks * number // devices * block for number in range(devices)]
    ranges = (range(start, min(stop, count)) for start, stop in zip(edges, [*edges[1:], count], strict=True))
    return [rows for rows in ranges if len(rows)]


def search_on(
    devices: Sequence[torch.device], search: Search, vectors: FlatVectors, queries: NDArray[np.float32], k: int
) -> Callable[[Blocks, Task], Hits]:
    """Return a search of blocks, each device with its span of the vectors in a thread of its own.

    Lists are merged by descending score, ties by ascending row. One that fails stops the others at their next block.
    """

    def on(blocks: Blocks, task: Task) -> Hits:
        dealt, shared = spans(len(vectors), blocks.corpus, len(devices)), _Together(task)

        def part(rows: range, device: torch.device) -> Hits:
            hits = search(vectors.part(rows), queries, k, replace(blocks, device=device), shared)
            return Hits(np.where(hits.rows >= 0, hits.rows + rows.start, -1), hits.scores)

        with ThreadPoolExecutor(len(dealt)) as threads, sums_in_float32():  # the rule is one of all threads
            waiting = [threads.submit(part, rows, device) for rows, device in zip(dealt, devices, strict=False)]
            try:
                return reduce(merged_lists, [one.result() for one in waiting])
            except BaseException:
                shared.stopped.set()
                raise

    return on


class _StoppedElsewhere(Exception):
    """Another device's search has failed, and its error is raised."""


@dataclass
class _Together:
    """One bar that several threads advance."""

    task: Task
    stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def advance(self, count: int = 1) -> None:
        """`count` more are done by one of them."""
        if self.stopped.is_set():
            raise _StoppedElsewhere
        with self._lock:
            self.task.advance(count)

    def describe(self, text: str) -> None:
        """A note."""
        self.task.describe(text)
