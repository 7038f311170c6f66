"""Training rows for sentence-transformers: the columns of each form, with negatives from the refresh of each batch."""

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
from datasets import Dataset
from datasets.table import InMemoryTable
from numpy.typing import NDArray
from torch.utils.data import BatchSampler, get_worker_info

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import NegativesFile
from hardneg.formats.qrels import positives
from hardneg.records import DataError, TrainingError, UsageError, counted
from hardneg.store import replacing
from hardneg.training.checkpoint import MANIFEST, RefreshFolder

Form = Literal["n-tuple", "labeled-pair", "labeled-list"]
FORMS: tuple[Form, ...] = get_args(Form)


@dataclass(frozen=True, eq=False)
class RowPlan:
    """The training rows of a split, ordered by query and then by positive.

    `n-tuple` and `labeled-list` have one row per positive, with all negatives; `labeled-pair` has one row per positive
    and one per negative of a query.

    texts: texts of all Q queries. query: int32 [n], positions in `texts`. positive: int64 [n], corpus rows; -1 for a
    row without a positive. number: int32 [n], list position of a `labeled-pair` row's negative; -1 for other rows.
    """

    form: Form
    negatives: int
    query_ids: Sequence[str]
    texts: Sequence[str]
    query: NDArray[np.int32]
    positive: NDArray[np.int64]
    number: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.query)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns, in the order that trainers expect."""
        numbered = [f"negative_{number + 1}" for number in range(self.negatives)]
        others = {"labeled-pair": ["passage", "label"], "labeled-list": ["positive", "labels"]}
        negatives = numbered if self.negatives > 1 else ["negative"]
        return ("anchor", *others.get(self.form, ["positive", *negatives]))

    def wanted(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the number of negatives in each row: int64 [B]. rows: int64 [B], positions in the plan."""
        if self.form == "labeled-pair":
            return (self.number[rows] >= 0).astype(np.int64)
        return np.full(len(rows), self.negatives)

    def columns_of(
        self, rows: NDArray[np.int64], negatives: Sequence[Sequence[str]], positive: Mapping[int, str]
    ) -> dict[str, list[Any]]:
        """Return the columns of the given rows, int64 [B], by name; a missing positive is an empty string.

        negatives: the negative texts of each row (`wanted` returns their number). positive: texts by corpus row.
        """
        anchors = [self.texts[number] for number in self.query[rows]]
        own = [positive.get(int(number), "") for number in self.positive[rows]]
        if self.form == "labeled-pair":
            passages = [has[0] if has else text for has, text in zip(negatives, own, strict=True)]
            columns: list[list[Any]] = [anchors, passages, [float(not has) for has in negatives]]
        elif self.form == "labeled-list":
            lists = [[text, *has] for text, has in zip(own, negatives, strict=True)]
            columns = [anchors, lists, [[1.0] + [0.0] * len(has) for has in negatives]]
        else:
            columns = [anchors, own, *map(list, zip(*negatives, strict=True))]
        return dict(zip(self.columns, columns, strict=True))


def plan_rows(collection: StoredCollection, split: str, form: str, negatives: int) -> RowPlan:
    """Return the rows of a split, with the given number of negatives; queries without a positive have no rows.

    Raises:
        UsageError: the form is unknown.
        DataError: no query has a positive.
    """
    if form not in FORMS:
        raise UsageError(f"unknown form {form!r}; available: {', '.join(FORMS)}")
    ids, texts, known = judged_queries(collection, split)
    flat = [doc_id for query_id in ids for doc_id in known[query_id]]
    rows = collection.corpus.known_rows(flat, "positive", "re-read the dataset")
    counts = np.array([len(known[query_id]) for query_id in ids])
    owner = np.repeat(np.arange(len(ids)), counts)
    query, positive, number = owner, rows, np.full(len(owner), -1)
    if form == "labeled-pair":
        added = np.repeat(np.arange(len(ids)), negatives)
        order = np.argsort(np.concatenate([owner, added]), stable=True)
        query = np.concatenate([owner, added])[order]
        positive = np.concatenate([rows, np.full(len(added), -1)])[order]
        number = np.concatenate([number, np.tile(np.arange(negatives), len(ids))])[order]
    return RowPlan(form, negatives, ids, texts, query.astype(np.int32), positive, number.astype(np.int32))


def judged_queries(collection: StoredCollection, split: str) -> tuple[list[str], list[str], dict[str, list[str]]]:
    """Return ids and texts of a split's queries with positives, and all positives by query; raise DataError if none."""
    queries, known = collection.queries(split), positives(collection.all_qrels())
    rows = [row for row, query_id in enumerate(queries.query_ids) if query_id in known]
    if not rows:
        raise DataError(f"none of the {len(queries)} queries of split {split} has a positive; use another split")
    return [queries.query_ids[row] for row in rows], [queries.texts[row] for row in rows], known


LISTS = "lists.npy"
SPARE = 16
"""Number of spare negatives per query, to replace negatives that are already in the batch."""


def table_of(mined: NegativesFile, query_ids: Sequence[str], corpus: Corpus, count: int) -> NDArray[np.int64]:
    """Return the mined negatives of each query as corpus rows: int64 [Q, at most count + SPARE].

    The negatives of a list shorter than `count` are repeated up to `count`. The rest of the array is padded with -1.

    Raises:
        TrainingError: a query has no negative.
    """
    known = {query_id: row for row, query_id in enumerate(mined.query_ids)}
    width = min(max(count, int(mined.counts.max(initial=0))), count + SPARE)
    doc_ids, sizes = mined.firsts(width)
    listed = np.full((len(sizes), width), -1, np.int64)
    listed[np.arange(width) < sizes[:, None]] = corpus.known_rows(doc_ids, "negative", "re-mine the negatives")
    rows = np.array([known.get(query_id, -1) for query_id in query_ids])
    counts = np.where(rows >= 0, np.append(sizes, 0)[rows], 0)
    if not counts.all():
        first = query_ids[int(np.argmin(counts))]
        lacking = f"{counted(int((counts == 0).sum()), 'query')} without negatives, such as {first}"
        raise TrainingError(f"{lacking}; use a miner that keeps more documents")
    table: NDArray[np.int64] = listed[rows]
    numbers = np.arange(count)[None, :] % counts[:, None]
    table[:, :count] = np.take_along_axis(table, numbers, axis=1)
    return table


def first_ones(
    table: NDArray[np.int64],
    positions: NDArray[np.int32],
    wanted: NDArray[np.int64],
    contents: NDArray[np.uint64],
    taken: NDArray[np.uint64] | None,
) -> list[list[int]]:
    """Return the negatives of each batch row: the first in its query's list, without texts already in the batch.

    Such texts are used if no others are left. table: int64 [B, W], the rows' lists, padded with -1. positions: int32
    [B], the list position of a row's only negative; -1 to start at the first. wanted: int64 [B], negatives per row.
    contents: uint64 [B, W], hashes of the texts in `table`. taken: uint64 [k], hashes of the batch's positives; None if
    a text may occur more than once.
    """
    seen, rows = set(() if taken is None else taken.tolist()), list[list[int]]()
    for listed, texts, position, count in zip(table.tolist(), contents.tolist(), positions, wanted, strict=True):
        start, picked, rest = max(int(position), 0), list[int](), list[int]()
        for each in (*range(start, len(listed)), *range(start)):
            if listed[each] >= 0 and len(picked) < count:
                (picked if taken is None or texts[each] not in seen else rest).append(listed[each])
                seen.add(texts[each])
        rows.append((picked + rest)[:count])
    return rows


ENDED = "ended"
"""Name of an empty file in the folder of refreshes, which signals that no more refreshes will follow."""


class RefreshedRows(Dataset):  # type: ignore[misc]
    """A dataset with rows of anchor, positive and negatives.

    Each batch of the trainer has negatives from the refresh for its step; data loader workers wait for that refresh.
    Rows read directly have negatives from the newest refresh, or empty strings before the first refresh. Copies of this
    dataset, such as a selection of rows, have empty strings.

    plan: the queries and positives of the rows. attached: whether a trainer uses the rows. distinct: whether a batch
    contains each document at most once. key: key of the collection.
    """

    plan: RowPlan
    corpus: Corpus
    refreshes: RefreshFolder
    attached: bool = False
    distinct: bool = False
    key: str = ""

    @classmethod
    def of(cls, plan: RowPlan, corpus: Corpus, refreshes: RefreshFolder) -> "RefreshedRows":
        """Return the dataset with anchors and positives in memory; negatives are read from the memory-mapped corpus."""
        known = _contents(corpus, np.unique(plan.positive))
        rows = np.arange(len(plan))
        empty = [[""] * count for count in plan.wanted(rows)]
        dataset: RefreshedRows = cls(InMemoryTable(pa.table(plan.columns_of(rows, empty, known))))
        dataset.plan, dataset.corpus, dataset.refreshes = plan, corpus, refreshes
        return dataset

    def write_lists(self, mined: NegativesFile, folder: Path) -> None:
        """Write the mined negatives of each query, as corpus rows, to the folder of a refresh.

        Raises:
            TrainingError: a query has no negative.
        """
        table = table_of(mined, self.plan.query_ids, self.corpus, self.plan.negatives)
        with replacing(folder / LISTS) as lists:
            np.lib.format.write_array(lists, table, allow_pickle=False)

    def fixed(self) -> Dataset:
        """Return the columns that refreshes do not change, for batch samplers: anchors, and positives or labels."""
        others = {"n-tuple": ["positive"], "labeled-pair": ["label"], "labeled-list": []}
        return Dataset(InMemoryTable(self.data.table.select(["anchor", *others[self.plan.form]])))

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return [row[key] for row in self] if key in self.plan.columns else super().__getitem__(key)
        rows = np.arange(len(self))[key]
        newest = self.refreshes.newest()
        empty = np.full((len(self.plan.query_ids), 1), -1, np.int64)
        table = empty if newest is None else self._table(newest.number)
        columns = self._resolved(np.atleast_1d(rows), table)
        return {name: column[0] for name, column in columns.items()} if np.ndim(rows) == 0 else columns

    def __iter__(self) -> Any:
        return (self[row] for row in range(len(self)))

    def __getitems__(self, keys: Sequence[int]) -> list[dict[str, Any]]:
        """Return the rows of a batch; each key is row + refresh number * number of rows."""
        if not self.attached:
            raise TrainingError("these rows have no negatives until a trainer mines them; call attach(trainer)")
        number, rows = max(keys) // len(self), np.array(keys, np.int64) % len(self)
        columns = self._resolved(rows, self._table(number))
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def _resolved(self, rows: NDArray[np.int64], table: NDArray[np.int64]) -> dict[str, list[Any]]:
        plan, positive = self.plan, self.plan.positive[rows]
        wanted = plan.wanted(rows)
        lists, hashes = table[plan.query[rows]], self.corpus.content_hash
        taken = hashes[positive[positive >= 0]] if self.distinct else None
        picked = first_ones(lists, plan.number[rows], wanted, hashes[np.maximum(lists, 0)], taken)
        used = np.unique([*positive.tolist(), *(row for some in picked for row in some)])
        known = _contents(self.corpus, used)
        negatives = [
            [known[row] for row in some] or [""] * count for some, count in zip(picked, wanted.tolist(), strict=True)
        ]
        return plan.columns_of(rows, negatives, known)

    def _table(self, number: int) -> NDArray[np.int64]:
        """Return the lists of a refresh; the last one stays open."""
        last = getattr(self, "_opened", None)
        if last is None or last[0] != number:
            last = self._opened = number, np.load(self._awaited(number) / LISTS, mmap_mode="r", allow_pickle=False)
        table: NDArray[np.int64] = last[1]
        return table

    def _awaited(self, number: int) -> Path:
        """Wait in a worker for a refresh and return its folder, or the newest one if there will be no more.

        Raises:
            TrainingError: the refresh does not exist, and no other process can mine it.
        """
        folder, parent = self.refreshes.negatives(number).parent, os.getppid()
        while not (folder / MANIFEST).exists():
            if (self.refreshes.folder / ENDED).exists() and (newest := self.refreshes.newest()):
                return self.refreshes.negatives(newest.number).parent
            if get_worker_info() is None or os.getppid() != parent:
                raise TrainingError(f"{folder}: refresh {number} is missing; start a new training run")
            time.sleep(0.02)
        return folder


def _contents(corpus: Corpus, rows: NDArray[np.int64]) -> dict[int, str]:
    """Return the texts of the given corpus rows, by row; -1 is left out."""
    there = rows[rows >= 0]
    return dict(zip(there.tolist(), corpus.contents(there), strict=True))


@dataclass
class RefreshSchedule:
    """A schedule of the steps at which refreshes are mined and used.

    Refresh n is mined with the model after n * `every` steps, or when epoch n begins. The trainer reads one batch
    ahead, with or without workers. So a refresh is used from the second step after mining, or from an epoch's start.

    every: steps between refreshes; None for one refresh per epoch. batches_a_step: batches per step over all processes
    and gradient accumulation. epoch: current epoch. first_step: number of steps before the current epoch.
    """

    every: int | None
    batches_a_step: int = 1
    epoch: int = 0
    first_step: int = 0

    def number(self, batch: int) -> int:
        """Return the refresh number of a batch. Batches are counted from 0 in each epoch."""
        return self.number_at(self.first_step + batch // self.batches_a_step)

    def number_at(self, step: int) -> int:
        """Return the number of the refresh to use for the step that follows `step` steps."""
        return self.epoch if self.every is None else max(step - 1, self.first_step) // self.every


class CarryingBatchSampler(BatchSampler):
    """The trainer's batch sampler, with indices that encode the refresh number: row + number * `rows`."""

    def __init__(self, held: Any, schedule: RefreshSchedule, rows: int) -> None:
        self.held, self.schedule, self.rows = held, schedule, rows
        self.batch_size, self.drop_last = held.batch_size, held.drop_last

    def __iter__(self) -> Iterator[list[int]]:
        parts: tuple[Any, ...] = (self.held, getattr(self.held, "sampler", None))
        for part in parts:
            if hasattr(part, "set_epoch"):  # a resumed run that skips batches does not call it
                part.set_epoch(self.schedule.epoch)
        for batch, indices in enumerate(self.held):
            offset = self.schedule.number(batch) * self.rows
            yield [index + offset for index in indices]

    def __len__(self) -> int:
        return len(self.held)

    def set_epoch(self, epoch: int) -> None:
        if hasattr(self.held, "set_epoch"):
            self.held.set_epoch(epoch)

    @property
    def sampler(self) -> Any:
        """The row sampler in the batch sampler; accelerate replaces the row sampler with a seeded one."""
        return self.held.sampler

    @sampler.setter
    def sampler(self, sampler: Any) -> None:
        self.held.sampler = sampler
