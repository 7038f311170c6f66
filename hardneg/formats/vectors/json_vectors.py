"""Vectors as lines of `{"id", "contents", "vector"}`, which `pyserini.encode` writes."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.text_lines import json_row, read_lines
from hardneg.formats.vectors import vector_files
from hardneg.records.errors import DataError


@dataclass(frozen=True)
class JsonVectors:
    """JSON Lines with an id and a vector each; the dimension is that of the first."""

    unit: ClassVar[str] = "line"
    path: Path
    dimension: int

    @classmethod
    def open(cls, path: Path) -> "JsonVectors":
        """The file, plain or gzip.

        Raises:
            DataError: it has no line, or its first one holds no vector.
        """
        first = next(read_lines(path), None)
        if first is None:
            raise DataError(f"{path}: there is nothing in it")
        return cls(path, len(_vector(path, *first, None)))

    def ids(self) -> Iterator[tuple[int, str]]:
        """Line numbers and ids. Raises DataError where a line is not of this form."""
        for number, line in read_lines(self.path):
            name = json_row(self.path, number, line).get("id")
            if not isinstance(name, str):
                raise DataError.at(self.path, number, f"'id' must be a string, but is {name!r:.40}")
            yield number, name

    def where(self, number: int) -> str:
        """A line of the file."""
        return f"{self.path}:{number}"

    def blocks(self) -> Iterator[NDArray[np.float32]]:
        """All vectors, float32 [n, d]. Raises DataError, with the line, where one is wrong."""
        lines = read_lines(self.path)
        while numbered := list(islice(lines, vector_files.ROWS)):
            block = np.stack([_vector(self.path, number, line, self.dimension) for number, line in numbered])
            vector_files.check_finite(block, lambda row, numbered=numbered: self.where(numbered[row][0]))  # type: ignore[misc]
            yield block


def _vector(path: Path, number: int, line: str, dimension: int | None) -> NDArray[np.float32]:
    values = json_row(path, number, line).get("vector")
    if not isinstance(values, list) or not values or not set(map(type, values)) <= {int, float}:
        raise DataError.at(path, number, "'vector' must be a list of numbers")
    if dimension is not None and len(values) != dimension:
        raise DataError.at(path, number, f"a vector of dimension {len(values)}; the first has {dimension}")
    try:
        return np.array(values, np.float32)
    except OverflowError as error:
        raise DataError.at(path, number, "'vector' holds a number that is too large") from error
