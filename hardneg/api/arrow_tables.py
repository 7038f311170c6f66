"""Results as tables of other libraries: rows in Arrow files, which `datasets` maps, and frames of pandas."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from hardneg.records.errors import MissingDependency
from hardneg.records.types import Negatives, RankedList

_RUN = pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("rank", pa.int32()), ("score", pa.float32())])


def run_rows(run: Iterable[tuple[str, RankedList]]) -> Iterator[pa.RecordBatch]:
    """A row a document of each query's list, counted from rank 1."""
    for query_id, ranked in run:
        yield _batch(query_id, list(ranked.doc_ids), ranked.scores)


def negatives_rows(mined: Iterable[Negatives]) -> Iterator[pa.RecordBatch]:
    """A row a negative, in the order of each query's; the score is that of the run."""
    for item in mined:
        yield _batch(item.query_id, list(item.negatives), item.scores)


def _batch(query_id: str, doc_ids: list[str], scores: Any) -> pa.RecordBatch:
    ranks = pa.array(range(1, len(doc_ids) + 1), pa.int32())
    columns = [pa.array([query_id] * len(doc_ids), pa.string()), pa.array(doc_ids, pa.string()), ranks]
    return pa.record_batch([*columns, pa.array(scores, pa.float32())], schema=_RUN)


def write_run_rows(run: Iterable[tuple[str, RankedList]], path: Path) -> None:
    """Writes the rows of a run as an Arrow stream."""
    _write(path, _RUN, run_rows(run))


def write_parquet_rows(source: Path, path: Path) -> None:
    """Writes the rows of a Parquet file as an Arrow stream, a thousand at a time."""
    with parquet.ParquetFile(source) as file:
        _write(path, file.schema_arrow, file.iter_batches(1000))


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def dataset_of(path: Path) -> Any:
    """The memory-mapped `datasets.Dataset` of an Arrow stream.

    Raises:
        MissingDependency: `datasets` is not installed.
    """
    try:
        from datasets import Dataset
    except ImportError as error:
        raise MissingDependency('to_dataset needs datasets: pip install "hardneg[hub]"') from error
    return Dataset.from_file(str(path))


def frame_of_rows(rows: list[dict[str, Any]]) -> Any:
    """The `pandas.DataFrame` of some rows. Raises MissingDependency where pandas is not installed."""
    return _framed(pa.Table.from_pylist(rows))


def frame_of(batches: Iterable[pa.RecordBatch]) -> Any:
    """The `pandas.DataFrame` of some rows. Raises MissingDependency: pandas is not installed."""
    return _framed(pa.Table.from_batches(list(batches), _RUN))


def _framed(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise MissingDependency("to_pandas needs pandas: pip install pandas") from error
