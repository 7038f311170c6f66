"""Blocks of vectors on a GPU, each read and copied there while the one before it is multiplied."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.kernels.checks import check_finite


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

    with ThreadPoolExecutor(1) as reader:
        waiting = [reader.submit(copy, number, _queued_work(device)) for number, _ in enumerate(starts[:1])]
        for number, start in enumerate(starts):
            block = waiting.pop().result()
            if number + 1 < len(starts):
                waiting.append(reader.submit(copy, number + 1, _queued_work(device)))
            yield start, block


def _queued_work(device: torch.device) -> torch.cuda.Event | None:
    """Return an event after the work that this thread has queued; None where there is none to wait for."""
    if device.type != "cuda":
        return None
    event = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(torch.cuda.current_stream(device))
    return event
