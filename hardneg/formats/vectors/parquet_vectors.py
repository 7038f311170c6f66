"""Vectors in Parquet: a column of ids and a column of lists of floating numbers, read by batches of rows."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from hardneg.formats.vectors import vector_files
from hardneg.records.errors import DataError
from hardneg.records.wording import counted

_IDS = ("id", "_id", "doc_id", "docid", "document_id", "query_id", "qid")
_VECTORS = ("vector", "embedding", "vectors", "embeddings", "emb")
_BUFFER = 1 << 20  # bytes


@dataclass(frozen=True)
class ParquetVectors:
    """A Parquet file whose rows have an id and a vector each; the dimension is that of the first row."""

    unit: ClassVar[str] = "row"
    path: Path
    id_column: str
    vector_column: str
    dimension: int

    @classmethod
    def open(cls, path: Path) -> "ParquetVectors":
        """Opens the file; its columns are recognised by type and name.

        Raises:
            DataError: it is damaged, has no row, or no column, or several, of ids or of vectors.
        """
        with _reading(path), pq.ParquetFile(path) as file:
            schema, rows = file.schema_arrow, file.metadata.num_rows
        ids = _column(path, schema, _is_id, _IDS, "ids, of strings or whole numbers")
        vectors = _column(path, schema, _is_vector, _VECTORS, "vectors, lists of floating numbers")
        if not rows:
            raise DataError(f"{path}: there is nothing in it")
        first = next(_read(path, vectors, 1))
        dimension = pc.list_value_length(first)[0].as_py()
        if not dimension:
            raise DataError(f"{path}: row 0: column {vectors!r} has no vector")
        return cls(path, ids, vectors, int(dimension))

    def ids(self) -> Iterator[tuple[int, str]]:
        """Row numbers, from 0, and ids. Raises DataError where a row has none."""
        start = 0
        for column in _read(self.path, self.id_column, vector_files.ROWS):
            with _reading(self.path):
                names: list[str | None] = pc.cast(column, pa.string()).to_pylist()
            for number, name in enumerate(names, start):
                if name is None:
                    raise DataError(f"{self.where(number)}: column {self.id_column!r} has no id")
                yield number, name
            start += len(names)

    def where(self, number: int) -> str:
        """A row of the file."""
        return f"{self.path}: row {number}"

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """All vectors, float32 [n, d]. Raises DataError, with the row, where one is wrong."""
        start = 0
        for column in _read(self.path, self.vector_column, vector_files.ROWS):
            lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
            if (other := lengths != self.dimension).any():
                at = int(np.argmax(other))
                reason = f"a vector of dimension {lengths[at]}" if lengths[at] else "no vector"
                raise DataError(f"{self.where(start + at)}: {reason}; the first has {self.dimension}")
            values = column.flatten()
            if values.null_count:
                row = int(np.argmax(values.is_null().to_numpy(zero_copy_only=False))) // self.dimension
                raise DataError(f"{self.where(start + row)}: the vector lacks a number")
            with np.errstate(over="ignore"):
                block = values.to_numpy(zero_copy_only=False).astype(np.float32).reshape(-1, self.dimension)
            vector_files.check_finite(block, lambda row, start=start: self.where(start + row))  # type: ignore[misc]
            yield block
            start += len(block)


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: a Parquet file that is damaged or cut off; write it again ({reason})") from error


def _read(path: Path, column: str, rows: int) -> Iterator[Any]:
    """A column, some rows at a time; what is held does not grow with the file or its row groups."""
    with _reading(path), pq.ParquetFile(path, buffer_size=_BUFFER) as file:
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
