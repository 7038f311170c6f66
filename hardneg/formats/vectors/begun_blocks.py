"""The results of an unfinished block, saved about twice a minute: a kill costs no more than that."""

import logging
import time
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from hardneg.records.encoded import Encoded, EncodedRows
from hardneg.store.atomic_write import replacing

SECONDS = 30.0
"""Between two saves of an unfinished block."""
clock = time.monotonic
_log = logging.getLogger(__name__)

_Part = tuple[NDArray[np.int64], Encoded]


class BegunBlock:
    """The encoded parts of a block, in any order: the positions of their items, int64 [n], and the results.

    An item becomes a number, a vector, weights of terms, or vectors of tokens. count: how many items the block has.
    """

    def __init__(self, folder: Path | None, name: str, count: int) -> None:
        """With what a stopped run kept in `folder` of the block `name`, if it had `count` items; None keeps nothing."""
        self._folder, self._stem, self.count = folder, f"{name}.{count}", count
        paths = sorted(folder.glob(f"{self._stem}.*.npz")) if folder is not None else ()
        self._parts = [part for path in paths if (part := _read(path, count)) is not None]
        self.left(())
        self._kept, self._since = len(self._parts), clock()

    @property
    def missing(self) -> int:
        """How many items are not encoded yet."""
        return self.count - sum(len(positions) for positions, _ in self._parts)

    def left(self, batches: Iterable[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
        """The batches of positions that are not complete.

        What is known of a position in these is dropped: each batch is computed whole, as in a run without a stop.
        """
        owner, left = np.full(self.count, -1), []
        for number, (positions, _) in enumerate(self._parts):
            owner[positions] = number
        for batch in batches:
            if (owner[batch] < 0).any():
                owner[batch] = -1
                left.append(batch)
        taken = [np.flatnonzero(owner[positions] == number) for number, (positions, _) in enumerate(self._parts)]
        self._parts = [(rows[some], items[some]) for some, (rows, items) in zip(taken, self._parts, strict=True)]
        return left

    @property
    def due(self) -> bool:
        """Whether it is time to save."""
        return self._folder is not None and clock() - self._since >= SECONDS

    def add(self, positions: NDArray[np.int64], encoded: Encoded) -> None:
        """Adds the results of some items; saves all that was added where that is due."""
        self._parts.append((positions, encoded))
        if self.due:
            self._keep()

    def _keep(self) -> None:
        assert self._folder is not None
        for own, of_them in self._parts[self._kept :]:
            with replacing(self._folder / f"{self._stem}.{uuid4().hex}.npz") as file:
                np.savez(file, allow_pickle=False, **{"places": own, **arrays_of(of_them)})
        self._kept, self._since = len(self._parts), clock()

    def whole(self) -> Encoded | None:
        """All items in order; None where there are no parts."""
        if not self._parts:
            return None
        encoded: list[Any] = [encoded for _, encoded in self._parts]
        order = np.argsort(np.concatenate([positions for positions, _ in self._parts]))
        joined = np.concatenate(encoded) if isinstance(encoded[0], np.ndarray) else type(encoded[0]).join(encoded)
        whole: Encoded = joined[order]
        return whole


def drop(folder: Path | None, name: str) -> None:
    """Removes what is kept in `folder` of the block `name`, which is finished."""
    for path in folder.glob(f"{name}.*.npz") if folder is not None else ():
        path.unlink(missing_ok=True)


def arrays_of(encoded: Encoded) -> dict[str, NDArray[Any]]:
    """Encoded texts as arrays by name."""
    if isinstance(encoded, np.ndarray):
        return {"values": encoded}
    return {name: np.asarray(value) for name, value in vars(encoded).items()}


def encoded_of(arrays: Mapping[str, NDArray[Any]]) -> Encoded:
    """The encoded texts of these arrays, of one of the forms that are known here. Raises StopIteration for others."""
    if "values" in arrays:
        return arrays["values"]
    form = next(form for form in EncodedRows.__subclasses__() if {each.name for each in fields(form)} == {*arrays})
    return form(**{name: array if array.ndim else array.item() for name, array in arrays.items()})


def _read(path: Path, count: int) -> _Part | None:
    """A part; None, and a line in the log, where its file is damaged: it is made again."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
        positions = arrays.pop("places")
        encoded = encoded_of(arrays)
        if len(positions) == len(encoded) and (not len(positions) or 0 <= positions.min() <= positions.max() < count):
            return positions, encoded
    except (OSError, ValueError, KeyError, TypeError, EOFError, StopIteration, zipfile.BadZipFile) as error:
        _log.warning("%s: cannot be read (%s)", path, error)
    return None
