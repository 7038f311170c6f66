"""A run read query by query, for runs that are too large to hold."""

import gzip
import zlib
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.errors import DataError


def stream_run(path: Path) -> Iterator[tuple[str, list[str], NDArray[np.float32]]]:
    """Yields (query_id, doc_ids, float32 scores) in the order of a gzipped run that `write_run` wrote, best first.

    Raises:
        DataError: the file ends too early, or a line is not of the form that `write_run` writes.
    """
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            numbered = (_fields(path, number, line) for number, line in enumerate(lines, 1))
            for query_id, group in groupby(numbered, key=lambda fields: fields[0]):
                rows = list(group)
                scores = np.array([fields[4] for fields in rows]).astype(np.float32)
                yield query_id, [fields[2] for fields in rows], scores
    except (EOFError, gzip.BadGzipFile, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cut off or not a run ({error}); search again") from error
    except ValueError as error:
        raise DataError(f"{path}: a score is not a number ({error}); search again") from error


def _fields(path: Path, number: int, line: str) -> list[str]:
    fields = line.split(" ")
    if len(fields) != 6:
        raise DataError.at(path, number, f"{len(fields)} columns where a run has 6")
    return fields
