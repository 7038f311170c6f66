"""Files of vectors that another program made, of any of the forms that are read, opened by what they begin with."""

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.hash_index import hash_texts
from hardneg.formats.text_lines import id_problem, one_word
from hardneg.records.errors import DataError

ROWS = 4096
"""How many vectors are held at a time."""
NUMPY, PARQUET = b"\x93NUMPY", b"PAR1"


class VectorFile(Protocol):
    """Vectors and the id of each, in one order, read anew on each pass.

    unit: what the ids are numbered by, `line` or `row`.
    """

    unit: ClassVar[str]

    @property
    def path(self) -> Path:
        """The file of the vectors."""

    @property
    def dimension(self) -> int:
        """That of all vectors."""

    def ids(self) -> Iterator[tuple[int, str]]:
        """The number of each line or row, and the id of its vector."""

    def where(self, number: int) -> str:
        """The file, and in it the id of that number, in words."""

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """All vectors, float32 [n, d], n no more than `ROWS`.

        Raises:
            DataError: a vector, named by its line or row, is not finite or of another dimension.
        """


def open_vectors(path: Path, ids: Path | None = None) -> VectorFile:
    """A .npy array with a file of its ids, one a line; Parquet; or JSON Lines, as `pyserini.encode` writes them.

    Raises:
        DataError: there is no such file, it is damaged or of another form, or its ids are missing.
    """
    from hardneg.formats.vectors.json_vectors import JsonVectors
    from hardneg.formats.vectors.npy_vectors import NpyVectors
    from hardneg.formats.vectors.parquet_vectors import ParquetVectors

    start = _beginning(path)
    if ids is not None:
        if start.startswith((PARQUET, b"{")):
            raise DataError(f"{path}: has the ids beside its vectors: leave {ids} out")
        return NpyVectors.open(path, ids)
    if start.startswith(NUMPY):
        raise DataError(f"{path}: a .npy array has no ids: give a file of them too, one a line, in the order of rows")
    return ParquetVectors.open(path) if start.startswith(PARQUET) else JsonVectors.open(path)


def _beginning(path: Path) -> bytes:
    if not path.is_file():
        reason = "not a file" if path.exists() else "no such file"
        raise DataError(f"{path}: {reason}; vectors are read from a .npy, Parquet or JSON Lines file")
    try:
        with path.open("rb") as file:
            return file.read(8)
    except OSError as error:
        raise DataError(f"{path}: cannot be opened: {error.strerror}") from error


def check_finite(block: NDArray[np.float32], where: Callable[[int], str]) -> None:
    """Checks float32 [n, d]; `where` names the line or row of a vector. Raises DataError where one is not finite."""
    if not (finite := np.isfinite(block).all(axis=1)).all():
        raise DataError(f"{where(int(np.argmin(finite)))}: the vector is not finite; encode it again")


def check_ids(file: VectorFile) -> int:
    """How many ids there are.

    Eight bytes an id are held: hashes find candidates for repeats, a second pass confirms them.

    Raises:
        DataError: there is none; or one, named by its line or row, is repeated, empty or has white space.
    """
    parts = list[NDArray[np.uint64]]()
    for block in in_blocks(file.ids()):
        if bad := next((item for item in block if not one_word(item[1])), None):
            raise DataError(f"{file.where(bad[0])}: {id_problem(bad[1])}")
        parts.append(hash_texts(name for _, name in block))
    hashes = np.concatenate([np.empty(0, np.uint64), *parts])
    if not len(hashes):
        raise DataError(f"{file.path}: there is nothing in it")
    values, counts = np.unique(hashes, return_counts=True)
    if (counts > 1).any():
        seen: dict[str, int] = {}
        for (count, title), suspect in zip(file.ids(), np.isin(hashes, values[counts > 1]), strict=True):
            if suspect and seen.setdefault(title, count) != count:
                there = f"{file.unit} {seen[title]}"
                raise DataError(f"{file.where(count)}: id {title!r} stands in {there} already; keep one")
    return len(hashes)


def in_blocks(ids: Iterator[tuple[int, str]]) -> Iterator[list[tuple[int, str]]]:
    """Numbered ids, `ROWS` at a time."""
    while block := list(islice(ids, ROWS)):
        yield block
