"""The negatives of one refresh, as training reads them: a table of rows of the corpus, query by query."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.corpus import Corpus
from hardneg.formats.negatives import NegativesFile
from hardneg.records.errors import TrainingError
from hardneg.records.wording import counted
from hardneg.store.atomic_write import replacing

LISTS = "lists.npy"
SPARE = 16
"""How many more negatives than a row takes are kept of each query, to pass over those that its batch has already."""


def table_of(
    mined: NegativesFile, query_ids: Sequence[str], corpus: Corpus, count: int
) -> tuple[NDArray[np.int64], int]:
    """int64 [Q, at most count + SPARE], and how many queries have fewer than `count`, whose lists are repeated.

    Raises:
        TrainingError: a query has no negative.
    """
    known = {query_id: row for row, query_id in enumerate(mined.query_ids)}
    width = min(max(count, int(mined.counts.max(initial=0))), count + SPARE)
    doc_ids, sizes = mined.firsts(width)
    listed = np.full((len(sizes), width), -1, np.int64)
    listed[np.arange(width) < sizes[:, None]] = corpus.known_rows(doc_ids, "negative", "mine again")
    rows = np.array([known.get(query_id, -1) for query_id in query_ids])
    counts = np.where(rows >= 0, np.append(sizes, 0)[rows], 0)
    if not counts.all():
        first = query_ids[int(np.argmin(counts))]
        lacking = f"{counted(int((counts == 0).sum()), 'query')} without a negative, such as {first}"
        raise TrainingError(f"{lacking}: take a miner that leaves more, or short='random'")
    table = listed[rows]
    numbers = np.arange(count)[None, :] % counts[:, None]
    table[:, :count] = np.take_along_axis(table, numbers, axis=1)
    return table, int((counts < count).sum())


def write_table(path: Path, table: NDArray[np.int64]) -> None:
    """As an array of numpy, whole or not at all."""
    with replacing(path) as file:
        np.lib.format.write_array(file, table, allow_pickle=False)


_QUERIES = 10_000  # compared: the first ones, so that the time does not grow with their number


def kept_share(table: NDArray[np.int64], before: NDArray[np.int64], count: int) -> float:
    """The share of the first `count` negatives that a query had among these before: the mean over queries.

    Args:
        table: int64 [Q, at least count], rows of the corpus. before: the same of the refresh before.
        count: how many negatives a row takes.
    """
    now, had = table[:_QUERIES, :count], before[:_QUERIES, :count]
    return float((now[:, :, None] == had[:, None, :]).any(axis=2).mean())


def first_ones(
    table: NDArray[np.int64],
    positions: NDArray[np.int32],
    wanted: NDArray[np.int64],
    contents: NDArray[np.uint64],
    taken: NDArray[np.uint64] | None,
) -> list[list[int]]:
    """The negatives of each row of a batch: the first of its list, or of those that its batch does not have yet.

    A list that has no others gives what it has all the same.

    Args:
        table: int64 [B, W], the rows' lists; -1 pads.
        places: int32 [B], of a row that takes one negative, which of its query's; -1 for the first ones.
        wanted: int64 [B], how many a row takes.
        contents: uint64 [B, W], of the documents in the table: equal where their texts are.
        taken: uint64 [k], those of the batch's positives; None where a text may come twice.
    """
    seen, rows = set(() if taken is None else taken.tolist()), list[list[int]]()
    for listed, texts, position, count in zip(table.tolist(), contents.tolist(), positions, wanted, strict=True):
        start = max(int(position), 0)
        order = [each for each in (*range(start, len(listed)), *range(start)) if listed[each] >= 0]
        picked = order[:count] if taken is None else _new_first(order, texts, int(count), seen)
        rows.append([listed[each] for each in picked])
    return rows


def _new_first(order: Sequence[int], texts: Sequence[int], count: int, seen: set[int]) -> list[int]:
    """The first positions of a list whose texts are not in `seen`, which gets them; others where there are none."""
    picked, rest = list[int](), list[int]()
    for each in order:
        if len(picked) == count:
            break
        (rest if texts[each] in seen else picked).append(each)
        seen.add(texts[each])
    return (picked + rest)[:count]
