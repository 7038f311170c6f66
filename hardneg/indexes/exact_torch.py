"""Exact search in plain torch, on any device: a product block by block, keeping a running best k.

Rows are visited in ascending order, so a vector that only equals a query's k-th score cannot enter its list
any more: comparing a block with those scores leaves few candidates, and ties stay in row order.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.data.flat import FlatVectors
from hardneg.errors import ArtifactError
from hardneg.indexes.validation import no_hits, vector_blocks
from hardneg.progress import Task
from hardneg.types import Hits

_SLACK = 128  # candidates beyond k that are let in before the next selection
_ROWS = 16_384


@dataclass(frozen=True)
class DeviceVectors:
    """rows: float32 [N, d], finite."""

    rows: Tensor

    @classmethod
    def load(cls, vectors: FlatVectors, device: torch.device) -> "DeviceVectors":
        """All vectors of a folder, on `device`.

        Raises:
            ArtifactError: for a vector that is not finite, naming its row.
        """
        rows = torch.empty((len(vectors), vectors.dimension), device=device)
        for start, block in vector_blocks(vectors, _ROWS):
            rows[start : start + len(block)] = torch.from_numpy(block)
        return cls(rows)

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """A copy of these rows, int64 [n]: float32 [n, d]."""
        found: NDArray[np.float32] = self.rows[torch.from_numpy(rows).to(self.rows.device)].cpu().numpy()
        return found

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return self.rows.shape[1]

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True)
class Blocks:
    """How many vectors and queries are multiplied at a time, and where."""

    corpus: int
    queries: int
    device: torch.device


@dataclass
class _Best:
    """Candidates of q queries among the rows seen so far, in row order: float32 and int64 [q, m].

    They include the best k (all rows, while there are no more than k) and may be padded with -inf and -1.
    bar: float32 [q, 1], a score that k candidates of the query reach.
    """

    scores: Tensor
    rows: Tensor
    bar: Tensor


def search_blocks(
    vectors: NDArray[np.float32] | FlatVectors | DeviceVectors,
    queries: NDArray[np.float32],
    k: int,
    blocks: Blocks,
    task: Task,
) -> Hits:
    """What `hardneg.indexes.exact.search_exact` says, on any device; takes what it has checked.

    Raises:
        ArtifactError: for vectors, or inner products, that are not finite.
    """
    device = blocks.device
    parts = [_to(queries[i : i + blocks.queries], device) for i in range(0, len(queries), blocks.queries)]
    best: list[_Best | None] = [None] * len(parts)
    with torch.inference_mode():
        space = torch.empty(min(blocks.queries, len(queries)) * min(blocks.corpus, len(vectors)), device=device)
        for start, block in _blocks(vectors, blocks):
            for i, part in enumerate(parts):
                scores = space[: len(part) * len(block)].view(len(part), len(block))
                best[i] = _merge(best[i], torch.mm(part, block.T, out=scores), start, k)
            task.advance(len(block))
        return _hits(best, len(queries), k)


def _blocks(vectors: NDArray[np.float32] | FlatVectors | DeviceVectors, blocks: Blocks) -> Iterator[tuple[int, Tensor]]:
    """The number of each block's first row and its rows, on the device."""
    if isinstance(vectors, DeviceVectors):
        starts = range(0, len(vectors), blocks.corpus)
        yield from ((start, vectors.rows[start : start + blocks.corpus].to(blocks.device)) for start in starts)
        return
    for start, rows in vector_blocks(vectors, blocks.corpus):
        yield start, torch.from_numpy(rows).to(blocks.device)


def _to(block: NDArray[np.float32], device: torch.device) -> Tensor:
    copied = np.require(block, np.float32, ["C_CONTIGUOUS", "ALIGNED", "WRITEABLE"])
    return torch.from_numpy(copied).to(device)


def _merge(best: _Best | None, scores: Tensor, start: int, k: int) -> _Best:
    """The candidates of `best` and of a block's scores [q, b], whose first row is `start`."""
    if best is None and scores.shape[1] > k:
        bar, kept = _largest(scores, k)
        rows = kept % scores.shape[1] + start  # those alone: a number for each score would take twice their memory
        return _Best(_at(scores, kept).view(-1, k), rows.view(-1, k), bar)
    if best is None or best.scores.shape[1] < k:
        rows = torch.arange(start, start + scores.shape[1], device=scores.device).repeat(len(scores), 1)
        if best is not None:
            scores, rows = torch.cat([best.scores, scores], 1), torch.cat([best.rows, rows], 1)
        return _select(scores, rows, k)
    found = _where(scores > best.bar)
    if not len(found):
        return best
    query = found.div(scores.shape[1], rounding_mode="floor")
    row = found - query * scores.shape[1] + start
    longer = _appended(best, query, row, _at(scores, found))
    return _select(longer.scores, longer.rows, k) if longer.scores.shape[1] > max(2 * k, k + _SLACK) else longer


def _where(mask: Tensor) -> Tensor:
    """Flat places of the true values, ascending; eight are looked at in one step, as most are false."""
    flat = mask.view(-1)
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % 8)) if len(flat) % 8 else flat
    words = flat.view(torch.int64).nonzero()
    inside = flat.view(-1, 8).index_select(0, words.view(-1))
    return (words * 8 + torch.arange(8, device=mask.device))[inside]


def _at(values: Tensor, places: Tensor) -> Tensor:
    return values.view(-1).index_select(0, places)


def _appended(best: _Best, query: Tensor, row: Tensor, score: Tensor) -> _Best:
    """`best` with more candidates (sorted by query, then row) behind it."""
    counts = torch.bincount(query, minlength=len(best.scores))
    first = counts.cumsum(0) - counts
    place = torch.arange(len(query), device=query.device) - first[query] + best.scores.shape[1]
    padding = (0, int(counts.max()))
    scores = torch.nn.functional.pad(best.scores, padding, value=-torch.inf)
    rows = torch.nn.functional.pad(best.rows, padding, value=-1)
    scores[query, place] = score
    rows[query, place] = row
    return _Best(scores, rows, best.bar)


def _select(scores: Tensor, rows: Tensor, k: int) -> _Best:
    """The k largest of each line, kept in row order; among equals at the bar the first rows stay."""
    if scores.shape[1] <= k:
        return _Best(scores.clone(), rows, scores.amin(1, keepdim=True))
    bar, kept = _largest(scores, k)
    return _Best(_at(scores, kept).view(-1, k), _at(rows, kept).view(-1, k), bar)


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """float32 [q, 1], the k-th score of each line; int64 [q * k], flat places of its k largest, ascending."""
    bar = scores.topk(k, sorted=False).values.amin(1, keepdim=True)
    keep = scores >= bar
    too_many = (keep.sum(1) > k).nonzero().view(-1)
    if len(too_many):
        lines, least = scores[too_many], bar[too_many]
        above, equal = lines > least, lines == least
        keep[too_many] = above | (equal & (equal.cumsum(1, dtype=torch.int32) <= k - above.sum(1, keepdim=True)))
    return bar, _where(keep)


def _hits(best: list[_Best | None], count: int, k: int) -> Hits:
    hits, done = no_hits(count, k), 0
    for part in best:
        if part is None:
            break
        part = _select(part.scores, part.rows, k)
        sorted_scores, order = part.scores.sort(dim=1, descending=True, stable=True)
        lines, width = sorted_scores.shape
        hits.scores[done : done + lines, :width] = sorted_scores.cpu().numpy()
        hits.rows[done : done + lines, :width] = part.rows.gather(1, order).cpu().numpy()
        done += lines
    if not np.isfinite(hits.scores[hits.rows >= 0]).all():
        raise ArtifactError("inner products exceed the range of 32-bit numbers: scale the vectors down")
    return hits
