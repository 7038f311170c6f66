"""Several flat indexes as one: their vectors in a line in one folder, or a list of them as shards."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.hash_index import hash_texts
from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS, FlatVectors, FlatWriter
from hardneg.formats.vectors.shard_folder import Closed, close_folder, close_shard
from hardneg.formats.vectors.shards import Shard, Shards, shard_name
from hardneg.records.errors import ArtifactError, DataError, UsageError
from hardneg.records.layout import DOC_IDS, WEIGHTS
from hardneg.records.wording import counted
from hardneg.runtime.progress import Progress
from hardneg.store.atomic_write import link_file

_IDS = 65_536  # read at a time
_BLOCK_BYTES = 32 << 20


def open_flat(sources: Sequence[Path]) -> list[FlatVectors]:
    """The flat indexes in these folders, of one dimension and with no document twice.

    Eight bytes an id are held.

    Raises:
        UsageError: a folder holds something else, or vectors of another dimension; the message lists all of them.
        DataError: a document is in two of them, or twice in one.
    """
    opened, problems = list[FlatVectors](), list[str]()
    for source in sources:
        try:
            opened.append(_open(source))
        except ArtifactError as error:
            problems.append(str(error))
    for vectors in opened[1:]:
        if vectors.dimension != (first := opened[0]).dimension:
            reason = f"{first.folder} has {first.dimension}: merge what one model encoded"
            problems.append(f"{vectors.folder}: vectors of dimension {vectors.dimension}, and {reason}")
    if problems:
        raise UsageError("\n".join(problems))
    _check_ids(opened)
    return opened


def _open(source: Path) -> FlatVectors:
    if (source / WEIGHTS).exists() or (source / TOKEN_OFFSETS).exists():
        what = "weights of terms" if (source / WEIGHTS).exists() else "a vector for each token"
        raise ArtifactError(f"{source}: holds {what}: indexes of one vector a document can be merged")
    vectors = FlatVectors.open(source)
    if len(vectors.doc_ids) != len(vectors):
        reason = f"{len(vectors.doc_ids)} ids for {counted(len(vectors), 'vector')}"
        raise ArtifactError(f"{source / DOC_IDS}: {reason}: build the index again")
    return vectors


def _check_ids(opened: Sequence[FlatVectors]) -> None:
    hashes = np.concatenate([np.empty(0, np.uint64), *(hash_texts(part) for v in opened for part in _ids(v))])
    values, counts = np.unique(hashes, return_counts=True)
    if not (counts > 1).any():
        return
    suspects, seen, row = np.isin(hashes, values[counts > 1]), dict[str, str](), 0
    for vectors in opened:
        for line in np.flatnonzero(suspects[row : row + len(vectors)]).tolist():
            name, location = vectors.doc_ids[line], f"{vectors.folder / DOC_IDS}:{line + 1}"
            if name in seen:
                raise DataError(f"{location}: document {name!r} stands in {seen[name]} too: keep one")
            seen[name] = location
        row += len(vectors)


def _ids(vectors: FlatVectors) -> Iterator[Sequence[str]]:
    for start in range(0, len(vectors), _IDS):
        yield vectors.doc_ids[start : start + _IDS]


def merge_flat(opened: Sequence[FlatVectors], folder: Path, progress: Progress) -> int:
    """Writes one flat index of all vectors, in the order of the indexes; returns how many there are.

    Raises:
        ArtifactError: a vector is not finite, or a file is damaged.
    """
    dimension, total = opened[0].dimension, sum(map(len, opened))
    with FlatWriter(folder, dimension, total) as writer, progress.task("merge", total, "vectors") as task:
        for block in _blocks(opened, max(1, _BLOCK_BYTES // (4 * dimension))):
            writer.write(block)
            task.advance(len(block))
        writer.write_doc_ids(name for vectors in opened for part in _ids(vectors) for name in part)
        writer.close()
    return total


def _blocks(opened: Sequence[FlatVectors], size: int) -> Iterator[NDArray[np.float32]]:
    for vectors in opened:
        for start in range(0, len(vectors), size):
            yield vectors.read(start, min(start + size, len(vectors)))


def merge_in_shards(opened: Sequence[FlatVectors], folder: Path) -> int:
    """Makes each index, or each shard of it, a shard of one; files are shared where the disk can.

    Returns how many vectors there are.
    """
    shards = list[Closed]()
    for vectors in opened:
        listed = Shards.of(vectors.folder)
        for shard in listed.listed if listed else [Shard("", len(vectors), 0, "")]:
            shards.append(_linked(vectors.folder / shard.location, folder / shard_name(len(shards))))
    close_folder(folder, shards)
    return sum(shard.rows for shard in shards)


def _linked(source: Path, own: Path) -> Closed:
    """A shard made of the index in a folder."""
    for name in ("index", DOC_IDS):
        link_file(source / name, own / name)
    vectors = FlatVectors.open(own)
    return close_shard(own, len(vectors), {"dimension": vectors.dimension})
