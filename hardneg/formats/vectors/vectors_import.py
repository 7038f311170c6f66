"""Vectors that another program made, in a file of one of three forms, streamed into a dense index."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hardneg.formats.hash_index import hash_texts
from hardneg.formats.text_lines import id_problem, json_row, one_word, read_lines
from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.records.errors import DataError
from hardneg.records.wording import counted
from hardneg.registry.protocols import RowLookup
from hardneg.runtime.progress import Progress

ROWS = 4096
"""How many vectors are held at a time."""
NUMPY, PARQUET = b"\x93NUMPY", b"PAR1"
_IDS = ("id", "_id", "doc_id", "docid", "document_id", "query_id", "qid")
_VECTORS = ("vector", "embedding", "vectors", "embeddings", "emb")
_BUFFER = 1 << 20  # bytes
_UNORDERED = "unordered"

Block = tuple[NDArray[np.float32], Callable[[int], str]]
"""Vectors float32 [n, d], and where the vector of such a row of the block stands, in words."""


@dataclass(frozen=True)
class VectorFile:
    """Vectors and the id of each, in one order, read anew on each pass.

    dimension: of all vectors. ids: the number of each line or row, and its id. id_at: where the id of a number stands,
    in words. blocks: all vectors, up to `ROWS` at a time. unit: what ids are numbered by, `line` or `row`.
    """

    path: Path
    dimension: int
    ids: Callable[[], Iterator[tuple[int, str]]]
    id_at: Callable[[int], str]
    blocks: Callable[[], Iterator[Block]]
    unit: str = "line"

    def vectors(self) -> Iterator[NDArray[np.float32]]:
        """All vectors, float32 [n, d].

        Raises:
            DataError: one, named by its line or row, is not finite or of another dimension; at the end, all are zero.
        """
        rows, distinct = 0, False
        for block, where in self.blocks():
            if not (finite := np.isfinite(block).all(axis=1)).all():
                raise DataError(f"{where(int(np.argmin(finite)))}: the vector is not finite; encode it again")
            rows, distinct = rows + len(block), distinct or bool(block.any())
            yield block
        if rows and not distinct:
            problem = f"{counted(rows, 'vector')}, all zero: every text would tie; encode them again"
            raise DataError(f"{self.path}: {problem}")


def open_vectors(path: Path, ids: Path | None = None) -> VectorFile:
    """A .npy array with a file of its ids, one a line; Parquet; or JSON Lines, as `pyserini.encode` writes them.

    Raises:
        DataError: there is no such file, it is damaged or of another form, or its ids are missing.
    """
    if not path.is_file():
        reason = "not a file" if path.exists() else "no such file"
        raise DataError(f"{path}: {reason}; vectors are read from a .npy, Parquet or JSON Lines file")
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from error
    if ids is not None:
        if start.startswith((PARQUET, b"{")):
            raise DataError(f"{path}: has the ids beside its vectors: leave {ids} out")
        return _npy(path, ids)
    if start.startswith(NUMPY):
        raise DataError(f"{path}: a .npy array has no ids: give a file of them too, one a line, in the order of rows")
    return _parquet(path) if start.startswith(PARQUET) else _json(path)


def _json(path: Path) -> VectorFile:
    """Lines of `{"id", "vector"}`, plain or gzip; the dimension is that of the first."""
    if (first := next(read_lines(path), None)) is None:
        raise DataError(f"{path}: there is nothing in it")
    dimension = len(_json_vector(path, *first, None))

    def ids() -> Iterator[tuple[int, str]]:
        for number, line in read_lines(path):
            name = json_row(path, number, line).get("id")
            if not isinstance(name, str):
                raise DataError.at(path, number, f"'id' must be a string, but is {name!r:.40}")
            yield number, name

    def blocks() -> Iterator[Block]:
        lines = read_lines(path)
        while numbered := list(islice(lines, ROWS)):
            block = np.stack([_json_vector(path, number, line, dimension) for number, line in numbered])
            yield block, lambda row, numbered=numbered: f"{path}:{numbered[row][0]}"  # type: ignore[misc]

    return VectorFile(path, dimension, ids, lambda number: f"{path}:{number}", blocks)


def _json_vector(path: Path, number: int, line: str, dimension: int | None) -> NDArray[np.float32]:
    values = json_row(path, number, line).get("vector")
    if not isinstance(values, list) or not values or not set(map(type, values)) <= {int, float}:
        raise DataError.at(path, number, "'vector' must be a list of numbers")
    if dimension is not None and len(values) != dimension:
        raise DataError.at(path, number, f"a vector of dimension {len(values)}; the first has {dimension}")
    try:
        return np.array(values, np.float32)
    except OverflowError as error:
        raise DataError.at(path, number, "'vector' holds a number that is too large") from error


def _npy(path: Path, id_path: Path) -> VectorFile:
    """An array [N, d] of any floating type, mapped, and a file of N ids, one a line, in the order of its rows."""
    advice = "write floating numbers of shape [vectors, dimension] with numpy.save"
    try:
        with path.open("rb") as file:
            if file.read(len(NUMPY)) != NUMPY:
                raise DataError(f"{path}: not a .npy file; {advice}")
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise DataError(f"{path}: a damaged .npy file ({str(error).splitlines()[0]}); {advice}") from error
    if not np.issubdtype(array.dtype, np.floating) or array.ndim != 2 or not array.shape[1]:
        raise DataError(f"{path}: {array.dtype} of shape {array.shape}; {advice}")

    def ids() -> Iterator[tuple[int, str]]:
        count = 0
        for number, name in read_lines(id_path):
            count += 1
            yield number, name
        if count != len(array):
            raise DataError(f"{id_path}: {counted(count, 'id')} for {counted(len(array), 'vector')}")

    def blocks() -> Iterator[Block]:
        for start in range(0, len(array), ROWS):
            with np.errstate(over="ignore"):
                block = np.asarray(array[start : start + ROWS], np.float32)
            yield block, lambda row, start=start: f"{path}: row {start + row}"  # type: ignore[misc]

    return VectorFile(path, int(array.shape[1]), ids, lambda number: f"{id_path}:{number}", blocks)


def _parquet(path: Path) -> VectorFile:
    """Rows with an id and a list of numbers each; the columns are told by type and name, the dimension by row 0."""
    with _parquet_errors(path), pq.ParquetFile(path) as file:
        schema, count = file.schema_arrow, file.metadata.num_rows
    id_column = _column(path, schema, _is_id, _IDS, "ids, of strings or whole numbers")
    vector_column = _column(path, schema, _is_vector, _VECTORS, "vectors, lists of floating numbers")
    if not count:
        raise DataError(f"{path}: there is nothing in it")
    dimension = pc.list_value_length(next(_batches(path, vector_column, 1)))[0].as_py()
    if not dimension:
        raise DataError(f"{path}: row 0: column {vector_column!r} has no vector")

    def where(number: int) -> str:
        return f"{path}: row {number}"

    def ids() -> Iterator[tuple[int, str]]:
        numbers = iter(range(count))
        for column in _batches(path, id_column, ROWS):
            with _parquet_errors(path):
                names: list[str | None] = pc.cast(column, pa.string()).to_pylist()
            for name, number in zip(names, numbers, strict=False):
                if name is None:
                    raise DataError(f"{where(number)}: column {id_column!r} has no id")
                yield number, name

    def blocks() -> Iterator[Block]:
        start = 0
        for column in _batches(path, vector_column, ROWS):
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
            if (other := lengths != dimension).any():
                at = int(np.argmax(other))
                reason = f"a vector of dimension {lengths[at]}" if lengths[at] else "no vector"
                raise DataError(f"{where(start + at)}: {reason}; the first has {dimension}")
            values = column.flatten()
            if values.null_count:
                row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // dimension
                raise DataError(f"{where(start + row)}: the vector lacks a number")
            with np.errstate(over="ignore"):
                block = values.to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, dimension)
            yield block, lambda row, start=start: where(start + row)  # type: ignore[misc]
            start += len(block)

    return VectorFile(path, int(dimension), ids, where, blocks, "row")


@contextmanager
def _parquet_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: a Parquet file that is damaged or cut off; write it again ({reason})") from error


def _batches(path: Path, column: str, rows: int) -> Iterator[Any]:
    """A column, some rows at a time; what is held does not grow with the file or its row groups."""
    with _parquet_errors(path), pq.ParquetFile(path, buffer_size=_BUFFER) as file:
        for batch in file.iter_batches(rows, columns=[column]):
            yield batch.column(0)


def _is_id(type_: Any) -> bool:
    if pa.types.is_dictionary(type_):
        return _is_id(type_.value_type)
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_integer(type_))


def _is_vector(type_: Any) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(is_list(type_) for is_list in lists) and bool(pa.types.is_floating(type_.value_type))


def _column(path: Path, schema: Any, fits: Callable[[Any], bool], names: Sequence[str], what: str) -> str:
    """The column of one of these names, or the only one that fits."""
    fitting = [field.name for field in schema if fits(field.type)]
    named = [name for name in names if name in fitting]
    if len(named) == 1 or (not named and len(fitting) == 1):
        return str((named or fitting)[0])
    reason = f"{counted(len(fitting), 'column')} of {what}" if fitting else f"no column of {what}"
    columns = ", ".join(f"{field.name} ({field.type})" for field in schema)
    raise DataError(f"{path}: {reason}; call one of them {names[0]!r}; it has: {columns}")


def _in_blocks(ids: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    while block := list(islice(ids, ROWS)):
        yield block


def _check_ids(file: VectorFile) -> int:
    """How many ids there are; raises DataError where there is none, or one is repeated, empty or has white space.

    Eight bytes an id are held: hashes find candidates for repeats, a second pass confirms them.
    """
    parts = list[NDArray[np.uint64]]()
    for block in _in_blocks(file.ids()):
        if bad := next((item for item in block if not one_word(item[1])), None):
            raise DataError(f"{file.id_at(bad[0])}: {id_problem(bad[1])}")
        parts.append(hash_texts(name for _, name in block))
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    if not len(hashes):
        raise DataError(f"{file.path}: there is nothing in it")
    values, counts = np.unique(hashes, return_counts=True)
    if (counts > 1).any():
        seen: dict[str, int] = {}
        for (number, name), suspect in zip(file.ids(), np.isin(hashes, values[counts > 1]), strict=True):
            if suspect and seen.setdefault(name, number) != number:
                there = f"{file.unit} {seen[name]}"
                raise DataError(f"{file.id_at(number)}: id {name!r} stands in {there} already; keep one")
    return len(hashes)


def import_vectors(file: VectorFile, folder: Path, progress: Progress) -> int:
    """All vectors of a file as a dense index in `folder`, in the file's order; returns how many there are.

    Raises:
        DataError: an id is repeated or has white space, a vector is not finite, all are zero, the file is damaged.
    """
    count = _check_ids(file)
    _write(folder, (file.dimension, count), (name for _, name in file.ids()), file.vectors(), progress)
    return count


@dataclass(frozen=True)
class VectorOwners:
    """Whose vectors are wanted, in order.

    ids: all of them. rows: looks up the position of each id among them. what: what they are, such as `document`.
    """

    ids: Sequence[str]
    rows: RowLookup
    what: str


def arrange_vectors(file: VectorFile, wanted: VectorOwners, folder: Path, progress: Progress) -> int:
    """The wanted vectors as a dense index in `folder`, in the order of their ids; returns how many others there are.

    Vectors that stand in another order are written aside first: for that time they take twice their disk.

    Raises:
        DataError: a vector is missing, or what `import_vectors` raises it for.
    """
    _check_ids(file)
    rows, count = _rows(file, wanted), len(wanted.ids)
    known = rows[rows >= 0]
    blocks = _selected(file.vectors(), rows >= 0)
    if not (known == np.arange(count)).all():
        folder.mkdir(parents=True, exist_ok=True)
        blocks = _in_order(blocks, known, file.dimension, folder / _UNORDERED)
    _write(folder, (file.dimension, count), wanted.ids, blocks, progress)
    return len(rows) - count


def _rows(file: VectorFile, wanted: VectorOwners) -> NDArray[np.int64]:
    """The position of each of the file's ids among the wanted ones, int64 [N], -1 for others."""
    parts = [wanted.rows([name for _, name in block]) for block in _in_blocks(file.ids())]
    rows = np.concatenate([np.empty(0, np.int64), *parts])
    there = np.zeros(len(wanted.ids), bool)
    there[rows[rows >= 0]] = True
    if not there.all():
        first = wanted.ids[int(np.argmin(there))]
        lacking = f"{int((~there).sum())} of {counted(len(there), wanted.what)}"
        raise DataError(f"{file.path}: no vector for {lacking}, the first is {first!r}; encode them too")
    return rows


def _selected(blocks: Iterable[NDArray[np.float32]], wanted: NDArray[np.bool_]) -> Iterator[NDArray[np.float32]]:
    start = 0
    for block in blocks:
        yield block[wanted[start : start + len(block)]]
        start += len(block)


def _in_order(
    blocks: Iterable[NDArray[np.float32]], rows: NDArray[np.int64], dimension: int, path: Path
) -> Iterator[NDArray[np.float32]]:
    """The vectors, each of which is to have the row of its number in `rows`, through a file that is removed again."""
    arranged = np.memmap(path, "<f4", "w+", shape=(len(rows), dimension))
    path.unlink()
    start = 0
    for block in blocks:
        arranged[rows[start : start + len(block)]] = block
        start += len(block)
    for start in range(0, len(rows), ROWS):
        yield np.asarray(arranged[start : start + ROWS], np.float32)


def _write(
    folder: Path,
    shape: tuple[int, int],
    doc_ids: Iterable[str],
    blocks: Iterable[NDArray[np.float32]],
    progress: Progress,
) -> None:
    """Writes a dense index of this dimension and number of vectors."""
    with FlatWriter(folder, *shape) as writer, progress.task("importing", shape[1], "vectors") as task:
        for block in blocks:
            writer.write(block)
            task.advance(len(block))
        writer.write_doc_ids(doc_ids)
        writer.close()
