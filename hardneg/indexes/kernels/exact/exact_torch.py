"""Exact search in torch, on any device: a product block by block, keeping a running best k.

A package's faster way names the candidates of each block, with their scores in float32, instead of the product.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import linear

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_finite, one_ahead, vector_blocks
from hardneg.indexes.kernels.exact.top_k import Best, best_hits, entered, merged
from hardneg.records.types import Hits
from hardneg.registry.faster import Rough, RoughSearch
from hardneg.runtime.progress import Silent, Task

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
    rough: RoughSearch | None = None
    expected: int = 0


@dataclass
class _Part:
    """A part of the queries on a device, float32 [q, d], their best so far, and their way to candidates, if any."""

    queries: Tensor
    rough: Rough | None = None
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
            self.best = entered(self.best, *found, k)


def search_blocks(vectors: Vectors, queries: NDArray[np.float32], k: int, blocks: Blocks, task: Task) -> Hits:
    """Search as `hardneg.indexes.kernels.exact.exact.search_exact`, on any device; the arguments are checked.

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
