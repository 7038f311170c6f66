"""Checkpoints of a pass over an index, about twice a minute: a killed search resumes there."""

import logging
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hardneg.formats.vectors import begun_blocks
from hardneg.indexes.kernels.exact.top_k import Best, selected
from hardneg.runtime.progress import Task
from hardneg.store.atomic_write import replacing

_log = logging.getLogger(__name__)
_SHARE = 20  # keeping takes at most one of so many seconds

State = Mapping[str, NDArray[Any]]
"""The arrays of the best documents of one part of the queries."""


class BegunPass:
    """A pass over rows in order: how many of them are done, and the state of each part of the queries there."""

    def __init__(self, path: Path | None, ways: str) -> None:
        """Load what a stopped search kept in files named after `path`; None keeps nothing.

        ways: names what the states depend on beside the path, such as the engine and its block sizes.
        """
        self._path = None if path is None else path.with_name(f"{path.name}.{ways}.npz")
        self.done, self._states = 0, dict[int, dict[str, NDArray[Any]]]()
        if self._path is not None and self._path.exists():
            self._read(self._path)
        self._since, self._wait = begun_blocks.clock(), begun_blocks.SECONDS

    def tell(self, task: Task) -> None:
        """Report the rows that a resumed search has done."""
        if self.done:
            task.advance(self.done)

    def state(self, part: int) -> State | None:
        """That of a part of the queries; None where the pass is at its first row."""
        return self._states.pop(part, None)

    def at(self, done: int, states: Callable[[], Iterable[State]]) -> None:
        """So many rows are done; where that is due, the states of all parts are kept."""
        if self._path is None or (now := begun_blocks.clock()) - self._since < self._wait:
            return
        arrays = {f"{part}/{name}": array for part, state in enumerate(states()) for name, array in state.items()}
        with replacing(self._path) as file:
            np.savez(file, done=np.array(done), allow_pickle=False, **arrays)
        self._since = begun_blocks.clock()
        self._wait = max(begun_blocks.SECONDS, _SHARE * (self._since - now))

    def _read(self, path: Path) -> None:
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = dict(file)
            done = int(arrays.pop("done"))
        except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
            _log.warning("%s: cannot be read (%s)", path, error)
            return
        for key, array in arrays.items():
            part, _, name = key.partition("/")
            self._states.setdefault(int(part), {})[name] = array
        self.done = done


def kept_best(best: Best | None, k: int) -> State:
    """The best k of a part of the queries as arrays; of lists that are exact, no more is to be known."""
    if best is None:
        return {}
    best = selected(best.scores, best.rows, k)
    return {"scores": best.scores.cpu().numpy(), "rows": best.rows.cpu().numpy(), "bar": best.bar.cpu().numpy()}


def best_of(state: State | None, device: torch.device) -> Best | None:
    """The same on a device; None where there is nothing yet."""
    if not state:
        return None
    return Best(*(torch.from_numpy(state[name]).to(device) for name in ("scores", "rows", "bar")))
