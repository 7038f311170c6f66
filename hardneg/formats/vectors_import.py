"""Import vectors from other programs (a .npy array, Parquet or JSON Lines) into a dense index, as a stream."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, parquet

from hardneg.formats import arrays, text_lines, vectors
from hardneg.protocols import RowLookup
from hardneg.records import DataError, counted
from hardneg.runtime import Progress

ROWS = 4096
"""The number of vectors held in memory at a time."""
_NUMPY, _PARQUET = b"\x93NUMPY", b"PAR1"
_IDS = ("id", "_id", "doc_id", "docid", "document_id", "query_id", "qid")
_VECTORS = ("vector", "embedding", "vectors", "embeddings", "emb")
_BUFFER = 1 << 20  # bytes


class _Block(NamedTuple):
    """Ids and their vectors, float32 [n, d]; at, id_at: the location of each vector and of each id in its file."""

    ids: Sequence[str]
    vectors: NDArray[np.float32]
    at: Sequence[str]
    id_at: Sequence[str]


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors with ids. `blocks` returns an iterator over the whole file, `ROWS` vectors at a time."""

    path: Path
    dimension: int
    blocks: Callable[[], Iterator[_Block]]

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """Yield all vectors in blocks, float32 [n, d] with n up to `ROWS`.

        Raises DataError if a vector is not finite (the message has the line or row) or, at the end, if all are zero.
        """
        rows, distinct = 0, False
        for block in self.blocks():
            if not (finite := np.isfinite(block.vectors).all(axis=1)).all():
                raise DataError(f"{block.at[int(np.argmin(finite))]}: the vector is not finite; re-encode it")
            rows, distinct = rows + len(block.vectors), distinct or bool(block.vectors.any())
            yield block.vectors
        if rows and not distinct:
            problem = f"{counted(rows, 'vector')}, all zero, so all texts would tie; re-encode them"
            raise DataError(f"{self.path}: {problem}")


def open_vectors(path: Path, ids: Path | None = None) -> VectorFile:
    """Open a file of vectors: .npy with a file `ids`, one id per line; Parquet; or JSON Lines from `pyserini.encode`.

    Raises DataError if the file is missing or damaged, or has another format or no ids.
    """
    if not path.is_file():
        reason = "not a file" if path.exists() else "no such file"
        raise DataError(f"{path}: {reason}; give a .npy, Parquet or JSON Lines file")
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be opened ({error.strerror})") from error
    if ids is not None and start.startswith((_PARQUET, b"{")):
        raise DataError(f"{path}: already has ids; omit {ids}")
    if ids is None and start.startswith(_NUMPY):
        raise DataError(f"{path}: a .npy array has no ids; also give a file of ids, one per line, in row order")
    read = partial(_npy, id_path=ids) if ids else _parquet if start.startswith(_PARQUET) else _json
    blocks = partial(read, path)
    if (first := next(blocks(), None)) is None:
        raise DataError(f"{path}: contains no vectors")
    return VectorFile(path, first.vectors.shape[1], blocks)


def _json(path: Path) -> Iterator[_Block]:
    """Lines of `{"id", "vector"}`, plain or gzip; the first gives the dimension."""
    lines, dimension = text_lines.read_lines(path), 0
    while numbered := list(islice(lines, ROWS)):
        ids, rows = list[str](), list[NDArray[np.float32]]()
        for number, line in numbered:
            row = text_lines.json_row(path, number, line)
            name, values = row.get("id"), row.get("vector")
            if not isinstance(name, str):
                raise DataError.at(path, number, "'id' must be a string")
            try:
                numbers = isinstance(values, list) and set(map(type, values)) <= {int, float}
                vector = np.array(values if numbers else [], np.float32)
            except OverflowError:
                vector = np.empty(0, np.float32)
            if not len(vector):
                raise DataError.at(path, number, "'vector' must be a list of finite numbers")
            if len(vector) != (dimension := dimension or len(vector)):
                raise DataError.at(path, number, f"dimension {len(vector)}, but the first vector has {dimension}")
            ids.append(name)
            rows.append(vector)
        at = [f"{path}:{number}" for number, _ in numbered]
        yield _Block(ids, np.stack(rows), at, at)


def _npy(path: Path, id_path: Path) -> Iterator[_Block]:
    """A mapped array [N, d] of any floating type, and a file of N ids, one per line, in row order."""
    advice = "write floating-point numbers of shape [vectors, dimension] with numpy.save"
    try:
        array: NDArray[Any] = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: not a .npy file, or damaged ({str(error).splitlines()[0]}); {advice}") from error
    if not np.issubdtype(array.dtype, np.floating) or array.ndim != 2 or not array.shape[1]:
        raise DataError(f"{path}: has {array.dtype} values of shape {array.shape}; {advice}")
    lines = text_lines.read_lines(id_path)
    for start in range(0, len(array), ROWS):
        with np.errstate(over="ignore"):
            block = np.asarray(array[start : start + ROWS], np.float32)
        numbered = list(islice(lines, len(block)))
        if len(numbered) < len(block):
            raise DataError(f"{id_path}: {counted(start + len(numbered), 'id')} for {counted(len(array), 'vector')}")
        at, id_at = [f"{path}: row {start + row}" for row in range(len(block))], [f"{id_path}:{n}" for n, _ in numbered]
        yield _Block([name for _, name in numbered], block, at, id_at)
    if more := sum(1 for _ in lines):
        raise DataError(f"{id_path}: {counted(len(array) + more, 'id')} for {counted(len(array), 'vector')}")


def _parquet(path: Path) -> Iterator[_Block]:
    """Rows with an id and a list of numbers each, in columns of these names; the first row gives the dimension."""
    start = dimension = 0
    try:
        with parquet.ParquetFile(path, buffer_size=_BUFFER) as file:
            names = file.schema_arrow.names
            columns = [name for known in (_IDS, _VECTORS) for name in [n for n in known if n in names][:1]]
            if len(columns) < 2:
                raise DataError(f"{path}: expected columns 'id' and 'vector', found {', '.join(names)}")
            for batch in file.iter_batches(ROWS, columns=columns):
                at = [f"{path}: row {row}" for row in range(start, start + len(batch))]
                ids = compute.fill_null(compute.cast(batch.column(columns[0]), pa.string()), "").to_pylist()
                lists = batch.column(columns[1])
                lengths = compute.fill_null(compute.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
                dimension = dimension or int(lengths[0])
                if (other := (lengths != dimension) | (lengths == 0)).any():
                    row = int(np.argmax(other))
                    raise DataError(f"{at[row]}: dimension {lengths[row]}, but the first vector has {dimension}")
                with np.errstate(over="ignore"):  # missing numbers become nan
                    block = lists.flatten().to_numpy(zero_copy_only=False).astype(np.float32)
                yield _Block(ids, block.reshape(-1, dimension), at, at)
                start += len(batch)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not a Parquet file of ids and lists of numbers, or damaged ({reason})") from error


def _check_ids(file: VectorFile) -> int:
    """Count the ids. Raises DataError if an id is repeated, empty or has white space.

    Memory use is 8 bytes per id: hashes find possible repeats, and a second pass confirms them.
    """
    parts = list[NDArray[np.uint64]]()
    for block in file.blocks():
        for name, at in zip(block.ids, block.id_at, strict=True):
            if not text_lines.one_word(name):
                raise DataError(f"{at}: {text_lines.id_problem(name)}")
        parts.append(arrays.hash_texts(block.ids))
    values, counts = np.unique(np.concatenate(parts), return_counts=True)
    if (counts > 1).any():
        seen, repeated = dict[str, str](), values[counts > 1]
        for block, hashes in zip(file.blocks(), parts, strict=True):
            for row in np.flatnonzero(np.isin(hashes, repeated)).tolist():
                name, at = block.ids[row], block.id_at[row]
                if seen.setdefault(name, at) != at:
                    raise DataError(f"{at}: id {name!r} already occurs at {seen[name]}; keep one of the two")
    return int(counts.sum())


def import_vectors(file: VectorFile, folder: Path, progress: Progress) -> int:
    """Write all vectors of a file as a dense index in `folder`, in the file's order; return the number of vectors.

    Raises DataError if an id is invalid or repeated, a vector is not finite, all are zero, or the file is damaged.
    """
    count = _check_ids(file)
    ids = (name for block in file.blocks() for name in block.ids)
    _write(folder, (file.dimension, count), ids, file.vectors(), progress)
    return count


@dataclass(frozen=True)
class VectorOwners:
    """The texts that need vectors, in order.

    ids: all text ids. rows: maps ids to positions in `ids`, -1 for unknown ids. what: a noun such as `document`.
    """

    ids: Sequence[str]
    rows: RowLookup
    what: str


def arrange_vectors(file: VectorFile, wanted: VectorOwners, folder: Path, progress: Progress) -> int:
    """Write the wanted vectors to `folder` as a dense index, in the wanted order; return how many were left out.

    If the file has a different order, vectors are first written to a temporary file, so twice the disk space is needed.

    Raises DataError if a vector is missing, and as `import_vectors` does.
    """
    _check_ids(file)
    parts = [wanted.rows(block.ids) for block in file.blocks()]
    known = np.concatenate([rows[rows >= 0] for rows in parts])
    there = np.zeros(len(wanted.ids), bool)
    there[known] = True
    if not there.all():
        first = wanted.ids[int(np.argmin(there))]
        lacking = f"{int((~there).sum())} of {counted(len(there), wanted.what)}"
        raise DataError(f"{file.path}: no vector for {lacking}, such as {first!r}; encode them too")
    blocks: Iterable[NDArray[np.float32]]
    blocks = (block[rows >= 0] for block, rows in zip(file.vectors(), parts, strict=True))
    if not (known == np.arange(len(there))).all():
        folder.mkdir(parents=True, exist_ok=True)
        path, start = folder / "unordered", 0
        arranged = np.memmap(path, "<f4", "w+", shape=(len(known), file.dimension))
        path.unlink()  # the map stays valid
        for block in blocks:
            arranged[known[start : start + len(block)]] = block
            start += len(block)
        blocks = (np.asarray(arranged[start : start + ROWS]) for start in range(0, len(known), ROWS))
    _write(folder, (file.dimension, len(there)), wanted.ids, blocks, progress)
    return sum(map(len, parts)) - len(there)


def _write(
    folder: Path,
    shape: tuple[int, int],
    doc_ids: Iterable[str],
    blocks: Iterable[NDArray[np.float32]],
    progress: Progress,
) -> None:
    with vectors.FlatWriter(folder, *shape) as writer, progress.task("importing", shape[1], "vectors") as task:
        for block in blocks:
            writer.write(block)
            task.advance(len(block))
        writer.write_doc_ids(doc_ids)
        writer.close()
