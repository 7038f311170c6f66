"""A run read query by query, for runs that are too large to hold."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.counting import counted
from hardneg.errors import DataError
from hardneg.types import RankedList


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


def lists_in_order(path: Path, query_ids: Sequence[str]) -> Iterator[RankedList]:
    """The run's list for each query, an empty one where the run has none.

    Raises:
        DataError: the run does not keep the order of the queries.
    """
    empty: NDArray[np.float32] = np.empty(0, np.float32)
    stream = stream_run(path)
    head = next(stream, None)
    for query_id in query_ids:
        if head is not None and head[0] == query_id:
            yield RankedList(head[1], head[2])
            head = next(stream, None)
        else:
            yield RankedList((), empty)
    if head is not None:
        raise DataError(
            f"{path}: query {head[0]} is not in the split, or not in its order; search the same split again"
        )


def _fields(path: Path, number: int, line: str) -> list[str]:
    fields = line.split(" ")
    if len(fields) != 6:
        raise DataError.at(path, number, f"{counted(len(fields), 'column')} where a run has 6")
    return fields
