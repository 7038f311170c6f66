"""The best k documents of each query, kept while blocks of scores come in, and on disk for a search that is killed.

Rows are visited in ascending order, so a document that only equals a query's k-th score cannot enter its list
any more: comparing a block with those scores leaves few candidates, and ties stay in row order.
"""

import hashlib
import logging
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.formats.vectors import begun_blocks
from hardneg.indexes.kernels.checks import no_hits
from hardneg.records.errors import ArtifactError
from hardneg.records.types import Hits
from hardneg.runtime.progress import Task
from hardneg.store.atomic_write import replacing

State = Mapping[str, NDArray[Any]]
"""The arrays of the best documents of one part of the queries."""

_log = logging.getLogger(__name__)
_SAVING = 20  # saving takes at most one of so many seconds
_MANY = 1 << 19  # values from which on torch's threads find the true ones sooner than numpy
_SLACK = 128  # candidates beyond k that are let in before the next selection


@dataclass
class Best:
    """Candidates of q queries among the rows seen so far, in row order: float32 and int64 [q, m].

    They include the best k (all rows, while there are no more than k) and may be padded with -inf and -1.
    bar: float32 [q, 1], a score that k candidates of the query reach.
    """

    scores: Tensor
    rows: Tensor
    bar: Tensor


def merged(best: Best | None, scores: Tensor, start: int, k: int) -> Best:
    """The candidates of `best` and of a block's scores [q, b], whose first row is `start`."""
    if best is None and scores.shape[1] > k:
        bar, kept = _largest(scores, k)
        rows = kept % scores.shape[1] + start  # those alone: a number for each score would take twice their memory
        return Best(_at(scores, kept).view(-1, k), rows.view(-1, k), bar)
    if best is None or best.scores.shape[1] < k:
        rows = torch.arange(start, start + scores.shape[1], device=scores.device).repeat(len(scores), 1)
        if best is not None:
            scores, rows = torch.cat([best.scores, scores], 1), torch.cat([best.rows, rows], 1)
        return selected(scores, rows, k)
    entering = true_indices(scores > best.bar)
    if not len(entering):
        return best
    query = entering.div(scores.shape[1], rounding_mode="floor")
    row = entering - query * scores.shape[1] + start
    return entered(best, query, row, _at(scores, entering), k, max(k, _SLACK))


def true_indices(mask: Tensor) -> Tensor:
    """Return flat indices of the true values, ascending; many are read eight at a time, as most are false."""
    flat = mask.view(-1)
    if mask.device.type == "cpu" and len(flat) < _MANY:
        return torch.from_numpy(np.flatnonzero(flat.numpy()))
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % 8)) if len(flat) % 8 else flat
    words = flat.view(torch.int64).nonzero()
    inside = flat.view(-1, 8).index_select(0, words.view(-1))
    return (words * 8 + torch.arange(8, device=mask.device))[inside]


def _at(values: Tensor, indices: Tensor) -> Tensor:
    return values.view(-1).index_select(0, indices)


def entered(best: Best, query: Tensor, row: Tensor, score: Tensor, k: int, slack: int = 0) -> Best:
    """Add candidates, by ascending query, then row; the best k of each query are selected where it has `slack` more."""
    counts = torch.bincount(query, minlength=len(best.scores))
    first = counts.cumsum(0) - counts
    column = torch.arange(len(query), device=query.device) - first[query] + best.scores.shape[1]
    padding = (0, int(counts.max()))
    scores = torch.nn.functional.pad(best.scores, padding, value=-torch.inf)
    rows = torch.nn.functional.pad(best.rows, padding, value=-1)
    scores[query, column] = score
    rows[query, column] = row
    return selected(scores, rows, k) if scores.shape[1] > k + slack else Best(scores, rows, best.bar)


def selected(scores: Tensor, rows: Tensor, k: int) -> Best:
    """The k largest of each line, kept in row order; among equals at the bar the first rows stay."""
    if scores.shape[1] <= k:
        return Best(scores.clone(), rows, scores.amin(1, keepdim=True))
    bar, kept = _largest(scores, k)
    return Best(_at(scores, kept).view(-1, k), _at(rows, kept).view(-1, k), bar)


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return float32 [q, 1], the k-th score of each line; int64 [q * k], flat indices of its k largest, ascending."""
    bar = kth_largest(scores, k)[:, None]
    keep = scores >= bar
    too_many = (keep.sum(1) > k).nonzero().view(-1)
    if len(too_many):
        lines, least = scores[too_many], bar[too_many]
        above, equal = lines > least, lines == least
        keep[too_many] = above | (equal & (equal.cumsum(1, dtype=torch.int32) <= k - above.sum(1, keepdim=True)))
    return bar, true_indices(keep)


def kth_largest(scores: Tensor, k: int) -> Tensor:
    """The k-th largest of each line: float32 [q, n] to [q]; numpy's partition is several times as fast on a CPU."""
    if scores.device.type != "cpu":
        return scores.topk(k, sorted=False).values.amin(1)
    position = scores.shape[1] - k
    return torch.from_numpy(np.partition(scores.numpy(), position, axis=1)[:, position].copy())


def best_hits(best: Sequence[Best | None], count: int, k: int) -> Hits:
    """The k best of parts of the queries, `count` in all, as lists; None is a part that no block has met.

    Raises:
        ArtifactError: for scores that are not finite.
    """
    hits, done = no_hits(count, k), 0
    for part in best:
        if part is None:
            break
        part = selected(part.scores, part.rows, k)
        sorted_scores, order = part.scores.sort(dim=1, descending=True, stable=True)
        lines, width = sorted_scores.shape
        hits.scores[done : done + lines, :width] = sorted_scores.cpu().numpy()
        hits.rows[done : done + lines, :width] = part.rows.gather(1, order).cpu().numpy()
        done += lines
    if not np.isfinite(hits.scores[hits.rows >= 0]).all():
        raise ArtifactError("inner products exceed the range of 32-bit numbers: scale the vectors down")
    return hits


class BegunPass:
    """A pass over rows in order: how many of them are done, and the state of each part of the queries there."""

    def __init__(self, folder: Path | None, *ways: object) -> None:
        """Load what a stopped search kept in a folder; None keeps nothing.

        ways: what the states depend on: the engine, its block sizes, the depth, and the arrays of the queries.
        """
        self._path = None if folder is None else folder / f"{_digest(ways)}.npz"
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
        """So many rows are done; where that is due, about twice a minute, the states of all parts are kept."""
        if self._path is None or (now := begun_blocks.clock()) - self._since < self._wait:
            return
        arrays = {f"{part}/{name}": array for part, state in enumerate(states()) for name, array in state.items()}
        with replacing(self._path) as file:
            np.savez(file, done=np.array(done), allow_pickle=False, **arrays)
        self._since = begun_blocks.clock()
        self._wait = max(begun_blocks.SECONDS, _SAVING * (self._since - now))

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


def _digest(ways: Iterable[object]) -> str:
    state = hashlib.blake2b(digest_size=16)
    for way in ways:
        if isinstance(way, np.ndarray):
            state.update(f"{way.dtype} {way.shape}".encode())
            state.update(np.ascontiguousarray(way).view(np.uint8).data)
        else:
            state.update(f"{way} ".encode())
    return state.hexdigest()


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


class BestRows:
    """The best k rows of each query, part by part of the queries, in one pass over the rows that resumes after a stop.

    done: how many rows have passed.
    """

    def __init__(self, begun: BegunPass, parts: int, k: int, device: torch.device) -> None:
        """As a stopped pass left them, or without any rows; parts: of the queries, how many."""
        self._begun, self._k, self.done = begun, k, begun.done
        self._best = [best_of(begun.state(part), device) for part in range(parts)]

    def add(self, part: int, scores: Tensor, start: int) -> None:
        """Takes the scores of a part of the queries with a block of rows, float32 [q, b], from row `start` on."""
        self._best[part] = merged(self._best[part], scores, start, self._k)

    def passed(self, done: int) -> None:
        """So many rows have passed all parts; they are kept on disk where that is due."""
        self.done = done
        self._begun.at(done, lambda: (kept_best(best, self._k) for best in self._best))

    def hits(self, count: int) -> Hits:
        """The lists of all queries, `count`. Raises ArtifactError for scores that are not finite."""
        return best_hits(self._best, count, self._k)
