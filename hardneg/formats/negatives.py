"""Mined negatives and dropped candidates, one row per query, in two memory-mapped Arrow files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardneg.formats.arrays import map_batches
from hardneg.records import ArtifactError, DataError, Drops, Negatives
from hardneg.store import replacing

_IDS, _SCORES, _NUMBERS = pa.list_(pa.string()), pa.list_(pa.float32()), pa.list_(pa.int32())
_SCHEMA = pa.schema({"query_id": pa.string(), "positives": _IDS, "negatives": _IDS, "scores": _SCORES})
_DROPS = pa.schema(
    {
        "query_id": pa.string(),
        "candidates": pa.int32(),
        "doc_ids": _IDS,
        "ranks": _NUMBERS,
        "reasons": _IDS,
        "scores": _SCORES,
        "chosen": _NUMBERS,
    }
)
_ROWS = 1024
_NONE = Drops(0, [], np.empty(0, np.int32), [], np.empty(0, np.float32), np.empty(0, np.int32))


def write_negatives(path: Path, negatives: Iterable[Negatives]) -> int:
    """Stream negatives, but not their drops, to a file, completely or not at all. Return the number of queries.

    Raises DataError if a query is repeated, or has different numbers of scores and negatives.
    """
    known: set[str] = set()
    rows = iter(negatives)
    with replacing(path) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        while block := list(islice(rows, _ROWS)):
            for item in block:
                if item.query_id in known:
                    raise DataError(f"query {item.query_id!r} occurs twice among the negatives; mine each query once")
                if len(item.scores) != len(item.negatives):
                    counts = f"{len(item.scores)} scores for {len(item.negatives)} negatives"
                    raise DataError(f"query {item.query_id!r} has {counts}; use nan for missing scores")
                known.add(item.query_id)
            columns = [pa.array([item.query_id for item in block], pa.string())]
            columns.append(pa.array([list(item.positives) for item in block], _IDS))
            columns.append(pa.array([list(item.negatives) for item in block], _IDS))
            columns.append(pa.array([np.asarray(item.scores, np.float32) for item in block], _SCORES))
            writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return len(known)


def read_negatives(path: Path, whole: bool = False) -> "NegativesFile":
    """Memory-map a file written by `write_negatives` or, if `whole` is true, read it so that it can be deleted.

    Raises ArtifactError if the file is missing or truncated, or has another format.
    """
    return NegativesFile(map_batches(Path(path), _SCHEMA.names, whole))


def with_positives(known: Mapping[str, Sequence[str]], path: Path) -> dict[str, Sequence[str]]:
    """Return each query's known positives, followed by those recorded in a file of negatives, without duplicates.

    Raises ArtifactError as `read_negatives` does.
    """
    mined_with = read_negatives(path).positives
    return {**known, **{name: list(dict.fromkeys((*known.get(name, ()), *more))) for name, more in mined_with.items()}}


class NegativesFile(Sequence[Negatives]):
    """The rows of a file of negatives, one per query, read on access."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self._batches = batches
        self._starts = np.cumsum([0, *(batch.num_rows for batch in batches)], dtype=np.int64)

    def __len__(self) -> int:
        return int(self._starts[-1])

    @overload
    def __getitem__(self, index: int) -> Negatives: ...
    @overload
    def __getitem__(self, index: slice) -> list[Negatives]: ...
    def __getitem__(self, index: int | slice) -> Negatives | list[Negatives]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        batch, row = self._located(index)
        query_id, positives, negatives = (batch.column(name)[row].as_py() for name in _SCHEMA.names[:3])
        return Negatives(query_id, positives, negatives, batch.column("scores")[row].values.to_numpy())

    @property
    def query_ids(self) -> list[str]:
        """All query ids, in row order."""
        return [name for batch in self._batches for name in batch.column("query_id").to_pylist()]

    @property
    def positives(self) -> dict[str, list[str]]:
        """The positives of each query when it was mined, by query id, in row order."""
        rows = (zip(*(batch.column(i).to_pylist() for i in (0, 1)), strict=True) for batch in self._batches)
        return {query_id: doc_ids for pairs in rows for query_id, doc_ids in pairs}

    @property
    def counts(self) -> NDArray[np.int64]:
        """The number of negatives in each row: int64 [len(self)]."""
        lengths = [batch.column("negatives").value_lengths().to_numpy() for batch in self._batches]
        return np.concatenate([np.empty(0, np.int64), *lengths]).astype(np.int64)

    def pick(self, row: int, positions: NDArray[np.int64]) -> list[str]:
        """The ids of a row's negatives at `positions`, int64 [n], counted from 0; the others are not read."""
        batch, local = self._located(row)
        picked: list[str] = batch.column("negatives")[local].values.take(pa.array(positions)).to_pylist()
        return picked

    def firsts(self, count: int) -> tuple[list[str], NDArray[np.int64]]:
        """The ids of all rows' first `count` negatives in one list, and the number from each row: int64 [len(self)]."""
        import pyarrow.compute as pc

        flat = list[str]()
        for batch in self._batches:
            flat += pc.list_slice(batch.column("negatives"), 0, count).flatten().to_pylist()
        return flat, np.minimum(self.counts, count)

    def _located(self, index: int) -> tuple[pa.RecordBatch, int]:
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(f"row {index} is out of range for {len(self)} rows of negatives")
        number = int(np.searchsorted(self._starts, row, "right")) - 1
        return self._batches[number], row - int(self._starts[number])


def recorded(negatives: Iterable[Negatives], path: Path) -> Iterator[Negatives]:
    """Yield negatives unchanged and write their drops to `path`. If the first item's drops are None, write no file."""
    waiting = iter(negatives)
    firsts = list(islice(waiting, 1))
    rows = chain(firsts, waiting)
    if not firsts or firsts[0].drops is None:
        yield from rows
        return
    with replacing(path) as file, pa.ipc.new_file(file, _DROPS) as writer:
        while block := list(islice(rows, _ROWS)):
            drops = [item.drops or _NONE for item in block]
            columns = [pa.array([getattr(each, of.name) for each in drops], of.type) for of in list(_DROPS)[1:]]
            columns.insert(0, pa.array([item.query_id for item in block]))
            writer.write_batch(pa.record_batch(columns, schema=_DROPS))
            yield from block


def join_negatives(negatives: Iterable[bytes], dropped: Iterable[bytes]) -> Iterator[Negatives]:
    """Yield the rows of several files of negatives in order, with their drops, or None if `dropped` is empty.

    negatives: the bytes of each file. dropped: the bytes of each matching file written by `recorded`. If the rows are
    written to one file, it has the same bytes as if all queries had been mined at once.
    """
    drops = (drops_at(batch, row)[1] for data in dropped for batch in _batches(data) for row in range(len(batch)))
    for data in negatives:
        for item in NegativesFile(_batches(data)):
            yield replace(item, drops=next(drops, None))


def _batches(data: bytes) -> list[pa.RecordBatch]:
    file = pa.ipc.open_file(pa.BufferReader(data))
    return [file.get_batch(number) for number in range(file.num_record_batches)]


def drop_batches(path: Path) -> list[pa.RecordBatch]:
    """Memory-map the batches of a file written by `recorded`. A row has a query id and the fields of `Drops`.

    Raises ArtifactError if the file is missing or truncated, or has another format.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file; mine with a miner that reports what it drops, such as denoised")
    return map_batches(path, _DROPS.names)


def drops_at(batch: pa.RecordBatch, row: int) -> tuple[str, Drops]:
    """Return the query id and the drops in one row of a batch from `drop_batches`."""
    query_id, candidates, doc_ids, _, reasons = (batch.column(i)[row].as_py() for i in range(5))
    ranks, scores, chosen = (batch.column(name)[row].values.to_numpy() for name in ("ranks", "scores", "chosen"))
    return query_id, Drops(candidates, doc_ids, ranks, reasons, scores, chosen)
