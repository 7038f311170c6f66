"""Vectors that another program made, streamed into a dense index, in their own order or in that of a list of ids."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.formats.vectors.shard_writer import RowCut, ShardsToWrite
from hardneg.formats.vectors.vector_files import VectorFile, check_ids, in_blocks
from hardneg.records.errors import DataError
from hardneg.records.wording import counted
from hardneg.registry.protocols import RowLookup
from hardneg.runtime.progress import Progress

_UNORDERED = "unordered"


def import_vectors(file: VectorFile, folder: Path, progress: Progress) -> int:
    """All vectors of a file as a dense index in `folder`, in the file's order; returns how many there are.

    Raises:
        DataError: an id is repeated or has white space, a vector is not finite, all are zero, the file is damaged.
    """
    count = check_ids(file)
    with FlatWriter(folder, file.dimension, count) as writer:
        _write(writer, _blocks(file), progress)
        writer.write_doc_ids(name for _, name in file.ids())
        writer.close()
    return count


@dataclass(frozen=True)
class VectorOwners:
    """Whose vectors are wanted, in order.

    ids: all of them. rows: looks up the position of each id among them. what: what they are, such as `document`.
    """

    ids: Sequence[str]
    rows: RowLookup
    what: str


def arrange_vectors(
    file: VectorFile, wanted: VectorOwners, folder: Path, progress: Progress, cut: RowCut | None = None
) -> int:
    """The wanted vectors as a dense index in `folder`, in the order of their ids; returns how many others there are.

    Vectors that stand in another order are first written as they come, then gathered: for that time they take twice
    their disk.

    cut: into which shards; None makes one file.

    Raises:
        DataError: a vector is missing, or what `import_vectors` raises it for.
        ArtifactError: a shard cannot be put where it is to be.
    """
    check_ids(file)
    rows = _rows(file, wanted)
    known, others = rows[rows >= 0], int((rows < 0).sum())
    blocks = _kept(_blocks(file), rows >= 0)
    if not (known == np.arange(len(known))).all():
        blocks = _gathered(blocks, np.argsort(known), file.dimension, folder / _UNORDERED)
    if cut is not None:
        ShardsToWrite(folder, file.dimension, wanted.ids, cut).write(blocks, progress)
        return others
    with FlatWriter(folder, file.dimension, len(wanted.ids)) as writer:
        _write(writer, blocks, progress)
        writer.write_doc_ids(wanted.ids)
        writer.close()
    return others


def _rows(file: VectorFile, wanted: VectorOwners) -> NDArray[np.int64]:
    """The position of each of the file's ids among the wanted ones, int64 [N], -1 for others."""
    parts = [wanted.rows([name for _, name in block]) for block in in_blocks(file.ids())]
    rows = np.concatenate([np.empty(0, np.int64), *parts])
    there = np.zeros(len(wanted.ids), bool)
    there[rows[rows >= 0]] = True
    if not there.all():
        first = wanted.ids[int(np.argmin(there))]
        lacking = f"{int((~there).sum())} of {counted(len(there), wanted.what)}"
        raise DataError(f"{file.path}: no vector for {lacking}, the first is {first!r}; encode them too")
    return rows


def _blocks(file: VectorFile) -> Iterator[NDArray[np.float32]]:
    """The file's vectors; raises DataError at the end where all of them are zero."""
    rows, distinct = 0, False
    for block in file.blocks():
        rows, distinct = rows + len(block), distinct or bool(block.any())
        yield block
    if rows and not distinct:
        raise DataError(f"{file.path}: {counted(rows, 'vector')}, all zero: every text would tie; encode them again")


def _kept(blocks: Iterator[NDArray[np.float32]], wanted: NDArray[np.bool_]) -> Iterator[NDArray[np.float32]]:
    start = 0
    for block in blocks:
        part = wanted[start : start + len(block)]
        if part.any():
            yield block if part.all() else block[part]
        start += len(block)


def _gathered(
    blocks: Iterator[NDArray[np.float32]], order: NDArray[np.int64], dimension: int, path: Path
) -> Iterator[NDArray[np.float32]]:
    """The rows of all blocks in this order, through a file that is removed again."""
    sizes = []
    with path.open("wb") as file:
        for block in blocks:
            file.write(np.ascontiguousarray(block, "<f4").data)
            sizes.append(len(block))
    rows = np.memmap(path, "<f4", "r", shape=(len(order), dimension))
    path.unlink()
    start = 0
    for size in sizes:
        yield np.asarray(rows[order[start : start + size]], np.float32)
        start += size


def _write(writer: FlatWriter, blocks: Iterator[NDArray[np.float32]], progress: Progress) -> None:
    start = 0
    with progress.task("importing", writer.count, "vectors") as task:
        for number, block in enumerate(blocks):
            writer.write_block(number, start, block)
            start += len(block)
            task.advance(len(block))
