"""The best k documents of each query, updated with one block of scores at a time.

Blocks arrive in row order, so a document must score above a query's current k-th score to enter its list. Comparing a
block with these scores leaves few candidates, and ties remain in row order.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hardneg.indexes.checks import no_hits
from hardneg.records import ArtifactError, Hits

_SLACK = 128  # candidates beyond k to collect before the next selection


@dataclass
class Best:
    """Candidates of q queries among the rows seen so far, in row order: scores float32 and rows int64, both [q, m].

    The candidates include the best k, or all rows if there are fewer, and may be padded with -inf and -1.
    bar: float32 [q, 1], a score that at least k candidates of the query reach.
    """

    scores: Tensor
    rows: Tensor
    bar: Tensor


def merged(best: Best | None, scores: Tensor, start: int, k: int) -> Best:
    """Merge a block's scores, float32 [q, b], into `best`, which is None at first; `start` is the block's first row."""
    if best is None and scores.shape[1] > k:
        bar, best_cells = _largest(scores, k)
        rows = (
            best_cells % scores.shape[1] + start
        )  # a row number for each score would take twice the memory of the scores
        return Best(_at(scores, best_cells).view(-1, k), rows.view(-1, k), bar)
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
    """Return the flat indices of the true values, int64, ascending; a GPU tests eight values at a time."""
    flat = mask.view(-1)
    if mask.device.type == "cpu":
        return torch.from_numpy(np.flatnonzero(flat.numpy()))
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % 8)) if len(flat) % 8 else flat
    words = flat.view(torch.int64).nonzero()
    inside = flat.view(-1, 8).index_select(0, words.view(-1))
    return (words * 8 + torch.arange(8, device=mask.device))[inside]


def _at(values: Tensor, indices: Tensor) -> Tensor:
    return values.view(-1).index_select(0, indices)


def entered(best: Best, query: Tensor, row: Tensor, score: Tensor, k: int, slack: int = 0) -> Best:
    """Add n candidates, sorted by query and row, with their scores. Prune lists longer than k + `slack` to k."""
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
    """Return each query's k largest of scores [q, m], in row order; among ties at rank k, the lowest rows are kept."""
    if scores.shape[1] <= k:
        return Best(scores.clone(), rows, scores.amin(1, keepdim=True))
    bar, best_cells = _largest(scores, k)
    return Best(_at(scores, best_cells).view(-1, k), _at(rows, best_cells).view(-1, k), bar)


def _largest(scores: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return each line's k-th score, float32 [q, 1], and flat indices of its k largest, ascending, int64 [q * k]."""
    if scores.device.type != "cpu":
        bar = scores.topk(k, sorted=False).values.amin(1, keepdim=True)
    else:  # numpy's partition is several times as fast
        bar = torch.from_numpy(np.partition(scores.numpy(), -k, axis=1)[:, [-k]])
    keep = scores >= bar
    too_many = (keep.sum(1) > k).nonzero().view(-1)
    if len(too_many):
        lines, least = scores[too_many], bar[too_many]
        above, equal = lines > least, lines == least
        keep[too_many] = above | (equal & (equal.cumsum(1, dtype=torch.int32) <= k - above.sum(1, keepdim=True)))
    return bar, true_indices(keep)


def best_hits(best: Sequence[Best | None], count: int, k: int) -> Hits:
    """Return the k best hits of `count` queries. best: the candidates of each part of the queries; None without rows.

    Raises:
        ArtifactError: a score is not finite.
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
        raise ArtifactError("inner products exceed the range of float32; scale the vectors down")
    return hits


class BestRows:
    """The best k rows of each query, collected in one pass over the rows; the queries are split into parts."""

    def __init__(self, parts: int, k: int) -> None:
        """Start without rows. parts: number of parts that the queries are split into. k: rows to keep per query."""
        self._k, self._best = k, list[Best | None]([None] * parts)

    def add(self, part: int, scores: Tensor, start: int) -> None:
        """Add the scores of one part of the queries, float32 [q, b], for the block of rows that starts at `start`."""
        self._best[part] = merged(self._best[part], scores, start, self._k)

    def hits(self, count: int) -> Hits:
        """Return the k best hits of the `count` queries of all parts. Raises ArtifactError if a score is not finite."""
        return best_hits(self._best, count, self._k)
