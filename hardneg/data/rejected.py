"""What a miner left out, one row a query, in an Arrow file beside the negatives."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa

from hardneg.atomic_write import replacing
from hardneg.data.mmap import map_batches
from hardneg.errors import ArtifactError
from hardneg.types import Drops, Negatives

_SCHEMA = pa.schema(
    [
        ("query_id", pa.string()),
        ("candidates", pa.int32()),
        ("doc_ids", pa.list_(pa.string())),
        ("ranks", pa.list_(pa.int32())),
        ("reasons", pa.list_(pa.string())),
        ("scores", pa.list_(pa.float32())),
        ("chosen", pa.list_(pa.int32())),
    ]
)
_ROWS = 1024
_NONE = Drops(0, [], np.empty(0, np.int32), [], np.empty(0, np.float32), np.empty(0, np.int32))


def recorded(negatives: Iterable[Negatives], path: Path) -> Iterator[Negatives]:
    """The same negatives; what they dropped is written to `path` as they go by, if the first of them tells it."""
    waiting = iter(negatives)
    first = next(waiting, None)
    if first is None:
        return
    if first.drops is None:
        yield from chain([first], waiting)
        return
    with replacing(path) as file, pa.ipc.new_file(file, _SCHEMA) as writer:
        block: list[Negatives] = []
        for item in chain([first], waiting):
            block.append(item)
            if len(block) == _ROWS:
                writer.write_batch(_batch(block))
                block = []
            yield item
        writer.write_batch(_batch(block))


def drop_batches(path: Path) -> list[pa.RecordBatch]:
    """What `recorded` wrote, as mapped batches: a row a query, the fields of `Drops` as columns after its id.

    Raises:
        ArtifactError: it is missing, cut off or foreign.
    """
    if not path.is_file():
        raise ArtifactError(f"{path}: no such file; mine with a miner that tells what it drops, such as denoised")
    return map_batches(path, _SCHEMA.names)


def drops_at(batch: pa.RecordBatch, row: int) -> tuple[str, Drops]:
    """One row of a batch: the query's id, and what was dropped."""
    query_id, candidates, doc_ids, _, reasons = (batch.column(i)[row].as_py() for i in range(5))
    ranks, scores, chosen = (batch.column(name)[row].values.to_numpy() for name in ("ranks", "scores", "chosen"))
    return query_id, Drops(candidates, doc_ids, ranks, reasons, scores, chosen)


def _batch(block: list[Negatives]) -> pa.RecordBatch:
    drops = [item.drops or _NONE for item in block]
    columns = [
        pa.array([item.query_id for item in block], _SCHEMA.types[0]),
        pa.array([each.candidates for each in drops], _SCHEMA.types[1]),
        *(pa.array([getattr(each, field.name) for each in drops], field.type) for field in list(_SCHEMA)[2:]),
    ]
    return pa.record_batch(columns, schema=_SCHEMA)
