"""The best k documents of each query of a part, updated in place with few candidates at a time."""

import numpy as np
import torch
from torch import Tensor

from hardneg.indexes.kernels.exact.begun_pass import State
from hardneg.indexes.kernels.exact.top_k import Best, selected

_SLACK = 128  # candidates beyond k that there is room for, at least


class RunningBest:
    """Candidates of q queries in row order.

    bar: float32 [q], a score that k candidates from earlier calls reach, -inf while there are fewer.
    """

    def __init__(self, queries: int, k: int, device: torch.device) -> None:
        self._k, self._begun = k, False
        self._filled = torch.zeros(queries, dtype=torch.int64, device=device)
        self._scores = torch.full((queries, k + max(k, _SLACK)), -torch.inf, device=device)
        self._rows = torch.full_like(self._scores, -1, dtype=torch.int64)
        self.bar = torch.full((queries,), -torch.inf, device=device)

    def add(self, counts: Tensor, query: Tensor, row: Tensor, scores: Tensor) -> None:
        """Takes up candidates int64 [p], int64 [p] and float32 [p], by ascending query, then row, after all others.

        counts: int64 [q], how many there are of each query.
        """
        if int((self._filled + counts).amax()) > self._scores.shape[1]:
            self._select()
            self._widen(int((self._filled + counts).amax()) - self._scores.shape[1])
        first = torch.arange(len(counts), device=query.device) * self._scores.shape[1] + self._filled
        first += counts - counts.cumsum(0)
        slot = torch.arange(len(query), device=query.device) + first.index_select(0, query)
        self._scores.view(-1).scatter_(0, slot, scores)
        self._rows.view(-1).scatter_(0, slot, row)
        self._filled += counts
        if not self._begun and int(self._filled.amin()) >= self._k:
            self._select()
            self._begun = True

    def state(self) -> State:
        """Return all candidates and the room left, which determine the next selection, and so the bar."""
        width = int(self._filled.amax())
        tensors = {
            "filled": self._filled,
            "scores": self._scores[:, :width],
            "rows": self._rows[:, :width],
            "bar": self.bar,
        }
        arrays = {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
        return {**arrays, "room": np.array(self._scores.shape[1]), "begun": np.array(self._begun)}

    def restore(self, state: State) -> None:
        """Restore a state."""
        device = self.bar.device
        filled, scores, rows, bar = (
            torch.from_numpy(state[name]).to(device) for name in ("filled", "scores", "rows", "bar")
        )
        self._widen(int(state["room"]) - self._scores.shape[1])
        self._scores[:, : scores.shape[1]], self._rows[:, : rows.shape[1]] = scores, rows
        self._filled, self.bar, self._begun = filled, bar, bool(state["begun"])

    def _select(self) -> None:
        width, best = int(self._filled.amax()), self.best()
        if width >= self._k:
            self.bar = best.bar.view(-1)
        kept = best.scores.shape[1]
        self._scores[:, :kept], self._rows[:, :kept] = best.scores, best.rows
        self._scores[:, kept:width] = -torch.inf
        self._filled.clamp_(max=self._k)

    def _widen(self, more: int) -> None:
        if more > 0:
            self._scores = torch.nn.functional.pad(self._scores, (0, more), value=-torch.inf)
            self._rows = torch.nn.functional.pad(self._rows, (0, more), value=-1)

    def best(self) -> Best:
        """The best k of each query so far, in row order; fewer where so few have come, padded with -inf and -1."""
        width = max(1, int(self._filled.amax()))
        return selected(self._scores[:, :width].contiguous(), self._rows[:, :width].contiguous(), self._k)
