"""The training data: a `datasets.Dataset` whose negatives are those of the refresh that an index carries."""

import os
import time
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from datasets import Dataset
from datasets.table import InMemoryTable
from numpy.typing import NDArray

from hardneg.doors.trainer.lists import LISTS, first_ones
from hardneg.doors.trainer.row_plan import RowPlan
from hardneg.formats.corpus import Corpus
from hardneg.records.errors import TrainingError
from hardneg.training.refresh.folder import MANIFEST, RefreshFolder

ENDED = "ended"
"""A file beside the refreshes: there will be no more of them."""

_PAUSE = 0.02


class RefreshedRows(Dataset):  # type: ignore[misc]
    """Rows of anchor, positive and negatives.

    A batch that the trainer asks for has the negatives of its own refresh, and waits for them in a worker that is
    ahead. Rows that are looked at by hand have those of the newest refresh; before the first one they are empty texts.
    So they are in the table below, which copies of it show, such as a selection.

    Attributes:
        plan: what each row is made of. corpus: the documents. refreshes: their folder. attached: whether a trainer
            has it. distinct: whether a batch takes no document twice. key: that of the collection.
    """

    plan: RowPlan
    corpus: Corpus
    refreshes: RefreshFolder
    attached: bool = False
    distinct: bool = False
    key: str = ""

    @classmethod
    def of(cls, plan: RowPlan, corpus: Corpus, refreshes: RefreshFolder) -> "RefreshedRows":
        """The rows; anchors and positives are in memory, negatives where the corpus is mapped."""
        known = dict(zip(*_contents(corpus, np.unique(plan.positive)), strict=True))
        rows = np.arange(len(plan))
        empty = [[""] * count for count in plan.wanted(rows)]
        dataset: RefreshedRows = cls(InMemoryTable(pa.table(plan.columns_of(rows, empty, known))))
        dataset.plan, dataset.corpus, dataset.refreshes = plan, corpus, refreshes
        return dataset

    def fixed(self) -> Dataset:
        """The columns that no refresh changes, for batch samplers: anchors, and each row's positive or label."""
        beside = {"n-tuple": ["positive"], "triplet": ["positive"], "labeled-pair": ["label"], "labeled-list": []}
        columns = ["anchor", *beside[self.plan.form]]
        return Dataset(InMemoryTable(self.data.table.select(columns)))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return [row[key] for row in self] if key in self.plan.columns else super().__getitem__(key)
        rows = np.arange(len(self))[key]
        newest = self.refreshes.newest()
        table = self._placeholder if newest is None else self._table(newest.number)
        columns = self._resolved(np.atleast_1d(rows), table)
        return {name: column[0] for name, column in columns.items()} if np.ndim(rows) == 0 else columns

    def __iter__(self) -> Any:
        return (self[row] for row in range(len(self)))

    def __getitems__(self, keys: Sequence[int]) -> list[dict[str, Any]]:
        """The rows of a batch, by indices that carry a refresh."""
        if not self.attached:
            raise TrainingError("these rows have no negatives before their trainer mines: call attach(trainer)")
        number, rows = max(keys) // len(self), np.array(keys, np.int64) % len(self)
        columns = self._resolved(rows, self._table(number))
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    @cached_property
    def _placeholder(self) -> NDArray[np.int64]:
        return np.full((len(self.plan.query_ids), 1), -1, np.int64)

    def _resolved(self, rows: NDArray[np.int64], table: NDArray[np.int64]) -> dict[str, list[Any]]:
        plan, positive = self.plan, self.plan.positive[rows]
        wanted = plan.wanted(rows)
        lists, hashes = table[plan.query[rows]], self.corpus.content_hash
        taken = hashes[positive[positive >= 0]] if self.distinct else None
        picked = first_ones(lists, plan.number[rows], wanted, hashes[np.maximum(lists, 0)], taken)
        used = np.unique([*positive.tolist(), *(row for some in picked for row in some)])
        known = dict(zip(*_contents(self.corpus, used), strict=True))
        negatives = [
            [known[row] for row in some] or [""] * count for some, count in zip(picked, wanted.tolist(), strict=True)
        ]
        return plan.columns_of(rows, negatives, known)

    def _table(self, number: int) -> NDArray[np.int64]:
        """The lists of a refresh; the last one is kept open."""
        last = getattr(self, "_opened", None)
        if last is None or last[0] != number:
            last = self._opened = number, np.load(self._awaited(number) / LISTS, mmap_mode="r", allow_pickle=False)
        table: NDArray[np.int64] = last[1]
        return table

    def _awaited(self, number: int) -> Path:
        """Wait in a worker for the folder of a refresh; return the newest one, where there will be no more.

        Raises:
            TrainingError: it is not there, and cannot come while this process waits for it.
        """
        from torch.utils.data import get_worker_info

        folder, parent = self.refreshes.negatives(number).parent, os.getppid()
        while not (folder / MANIFEST).exists():
            if (self.refreshes.folder / ENDED).exists() and (newest := self.refreshes.newest()):
                return self.refreshes.negatives(newest.number).parent
            if get_worker_info() is None or os.getppid() != parent:
                raise TrainingError(f"{folder}: refresh {number} is gone: start the training afresh")
            time.sleep(_PAUSE)
        return folder


def _contents(corpus: Corpus, rows: NDArray[np.int64]) -> tuple[list[int], list[str]]:
    """Those of the rows that are of the corpus, without -1, and the texts there."""
    there = rows[rows >= 0]
    return there.tolist(), corpus.contents(there)
