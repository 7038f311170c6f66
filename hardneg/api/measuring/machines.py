"""What a machine does beside its networks: search, tokenise, read and write."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from hardneg.api.measuring.material import many
from hardneg.costs.rate_files import Scores
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.indexes.kernels.exact.exact import ExactOptions, search_exact

_DIMENSION, _DEPTH = 384, 200
_BLOCK = 4096
_PART = 16 << 20
_LEAST = 2.0  # seconds


def searching(folder: Path, device: str | None, vectors: int = 100_000) -> Scores:
    """Scores a second of exact search in an index's file, the choice of the best included.

    On a GPU there are as many times more vectors and queries as keep it busy.
    """
    options = ExactOptions(device=device)
    gpu = options.where.type == "cuda"
    count, queries, draws = vectors * (5 if gpu else 1), 256, np.random.default_rng(0)
    _write(folder, count, draws)
    flat = FlatVectors.open(folder)
    encoded, taken = draws.standard_normal((queries, _DIMENSION), np.float32), 0.0
    while taken < _LEAST and queries < 65_536:
        queries *= 2 if taken else 1
        encoded = draws.standard_normal((queries, _DIMENSION), np.float32)
        taken = seconds(lambda encoded=encoded: search_exact(flat, encoded, _DEPTH, options), gpu)  # type: ignore[misc]
    taken = seconds(lambda: search_exact(flat, encoded, _DEPTH, options), gpu)
    return Scores(dimension=_DIMENSION, scores=round(count * queries / taken, 1))


def _write(folder: Path, count: int, draws: np.random.Generator) -> None:
    with FlatWriter(folder, _DIMENSION, count) as writer:
        for number, start in enumerate(range(0, count, _BLOCK)):
            rows = min(_BLOCK, count - start)
            writer.write_block(number, start, draws.standard_normal((rows, _DIMENSION), np.float32))
        writer.write_doc_ids([str(row) for row in range(count)])
        writer.close()


def tokenising(model: Path) -> float:
    """Tokens a second that a process makes of texts, all of each."""
    encoder, count, taken = Encoder.load(ModelSpec(str(model)), "cpu"), 1_000, 0.0
    tokens = 0
    while taken < _LEAST / 2 and count < 500_000:
        count *= 2
        texts = many(count)
        begun = time.perf_counter()
        tokens = int(encoder.tokenise(texts, "document").lengths.sum())
        taken = time.perf_counter() - begun
    return round(tokens / taken, 1)


def writing(path: Path, size: int = 512 << 20) -> float:
    """Bytes a second, until they are on disk."""
    content = np.random.default_rng(0).bytes(_PART)

    def work() -> None:
        with path.open("wb") as file:
            for _ in range(size // _PART):
                file.write(content)
            file.flush()
            os.fsync(file.fileno())

    return round(size / seconds(work), 1)


def reading(path: Path) -> float:
    """Bytes a second of a file, which the system is asked to forget first."""
    handle = os.open(path, os.O_RDONLY)
    try:
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        size = os.fstat(handle).st_size
        buffer = bytearray(_PART)
        return round(size / seconds(lambda: _all(handle, buffer)), 1)
    finally:
        os.close(handle)


def _all(handle: int, buffer: bytearray) -> None:
    while os.readv(handle, [buffer]):
        pass


def seconds(work: Callable[[], object], gpu: bool = False) -> float:
    """How long it takes, a GPU's own work included."""
    begun = time.perf_counter()
    work()
    if gpu:
        torch.cuda.synchronize()
    return max(time.perf_counter() - begun, 1e-9)
