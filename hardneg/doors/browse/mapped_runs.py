"""A run as an Arrow file that is mapped, so that the list of any query is at hand without holding all of them."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path

import pyarrow as pa

from hardneg.formats.runs import EMPTY, stream_run
from hardneg.formats.vectors.mmap import map_batches
from hardneg.records.errors import DataError
from hardneg.records.types import RankedList
from hardneg.runtime.progress import Task
from hardneg.store.atomic_write import replacing

_SCHEMA = pa.schema([("query_id", pa.string()), ("doc_ids", pa.list_(pa.string())), ("scores", pa.list_(pa.float32()))])
_ROWS = 1024


@dataclass(frozen=True)
class MappedRun:
    """The lists of a run by query."""

    batches: list[pa.RecordBatch]

    @cached_property
    def query_ids(self) -> list[str]:
        """All of them, in the run's order."""
        return list(self._positions)

    @cached_property
    def _positions(self) -> dict[str, tuple[int, int]]:
        return {
            query_id: (number, row)
            for number, batch in enumerate(self.batches)
            for row, query_id in enumerate(batch.column(0).to_pylist())
        }

    def ranked(self, query_id: str) -> RankedList:
        """The list of a query, an empty one where the run has none."""
        position = self._positions.get(query_id)
        if position is None:
            return EMPTY
        batch, row = self.batches[position[0]], position[1]
        return RankedList(batch.column(1)[row].as_py(), batch.column(2)[row].values.to_numpy())


def map_run(path: Path, target: Path, task: Task) -> MappedRun:
    """Writes a run to `target` in a form that is mapped, and opens it; `task` advances by the query.

    Raises:
        DataError: the run is empty or has a mistake, or the lines of one query do not stand together.
    """
    with replacing(target) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        for batch in _batches(stream_run(path)):
            writer.write_batch(batch)
            task.advance(batch.num_rows)
    if not (batches := map_batches(target, _SCHEMA.names)):
        raise DataError(f"{path}: the run is empty")
    return MappedRun(batches)


def _batches(entries: Iterator[tuple[str, RankedList]]) -> Iterator[pa.RecordBatch]:
    while block := list(islice(entries, _ROWS)):
        columns = [
            pa.array([query_id for query_id, _ in block], _SCHEMA.types[0]),
            pa.array([list(ranked.doc_ids) for _, ranked in block], _SCHEMA.types[1]),
            pa.array([ranked.scores for _, ranked in block], _SCHEMA.types[2]),
        ]
        yield pa.record_batch(columns, schema=_SCHEMA)
