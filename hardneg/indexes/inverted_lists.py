"""Inverted lists of faiss, written by streaming: the file is faiss's own, and no more than a block is in memory.

Codes come in row order, each behind the number of its list. They are put aside in a file while the lists are counted,
so that every list's place is known; then each block is spread over the lists.
"""

import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.atomic_write import replacing
from hardneg.indexes.compression import load_faiss

_BYTES = 64 << 20  # of codes that are spread at a time
_COUNT = 8  # where the header has the number of vectors
_NO_LISTS = 12  # the bytes an empty index ends with: the word `sprs` and that no list has vectors
_ID = 8


@dataclass
class _Lists:
    """places: int64 [lists], where each list starts in the file. sizes: of each. filled: how many are written."""

    places: NDArray[np.int64]
    sizes: NDArray[np.int64]
    filled: NDArray[np.int64]
    width: int


def write_lists(index: Any, codes: Iterable[NDArray[np.uint8]], path: Path) -> int:
    """Writes a trained, empty IndexIVF with blocks uint8 [n, bytes] of its `sa_encode`; returns their number."""
    prefix, sizes = index.sa_code_size() - index.code_size, np.zeros(index.nlist, np.int64)
    with _scratch(path) as scratch:
        with scratch.open("wb") as file:
            for block in codes:
                sizes += np.bincount(_numbers(block, prefix), minlength=index.nlist)
                file.write(np.ascontiguousarray(block).data)
        with replacing(path) as file:
            head = bytearray(load_faiss().serialize_index(index))[:-_NO_LISTS]
            struct.pack_into("<q", head, _COUNT, int(sizes.sum()))
            file.write(bytes(head) + b"full" + struct.pack("<Q", len(sizes)) + sizes.astype("<u8").tobytes())
            file.flush()
            ends = file.tell() + np.cumsum(sizes * (index.code_size + _ID))
            places = ends - sizes * (index.code_size + _ID)
            lists = _Lists(places, sizes, np.zeros_like(sizes), index.code_size)
            os.ftruncate(file.fileno(), int(ends[-1]))
            for start, block in _blocks(scratch, index.sa_code_size()):
                _spread(lists, start, block, file.fileno())
    return int(sizes.sum())


@contextmanager
def _scratch(path: Path) -> Iterator[Path]:
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = path.with_name(f".{path.name}.codes.{os.getpid()}.tmp")
    try:
        yield scratch
    finally:
        scratch.unlink(missing_ok=True)


def _numbers(block: NDArray[np.uint8], prefix: int) -> NDArray[np.int64]:
    """The list of each code, int64 [n], from the `prefix` bytes before it."""
    padded = np.zeros((len(block), 8), np.uint8)
    padded[:, :prefix] = block[:, :prefix]
    return padded.view("<i8").ravel().astype(np.int64, copy=False)


def _blocks(scratch: Path, width: int) -> Iterator[tuple[int, NDArray[np.uint8]]]:
    """The first row of each block of codes, and the codes."""
    rows, start = max(1, _BYTES // width), 0
    with scratch.open("rb") as file:
        while data := file.read(rows * width):
            block = np.frombuffer(data, np.uint8).reshape(-1, width)
            yield start, block
            start += len(block)


def _spread(lists: _Lists, start: int, block: NDArray[np.uint8], file: int) -> None:
    """Writes the codes of rows from `start` on, and these rows, behind what their lists hold."""
    prefix = block.shape[1] - lists.width
    numbers = _numbers(block, prefix)
    order = np.argsort(numbers, kind="stable")
    codes, rows = block[order, prefix:], (start + order).astype("<i8")
    found, firsts = np.unique(numbers[order], return_index=True)
    for number, first, last in zip(found, firsts, [*firsts[1:], len(order)], strict=True):
        place, done = int(lists.places[number]), int(lists.filled[number])
        ids = place + int(lists.sizes[number]) * lists.width
        _put(file, codes[first:last].tobytes(), place + done * lists.width)
        _put(file, rows[first:last].tobytes(), ids + done * _ID)
        lists.filled[number] += last - first


def _put(file: int, data: bytes, place: int) -> None:
    while data:
        written = os.pwrite(file, data, place)
        data, place = data[written:], place + written
