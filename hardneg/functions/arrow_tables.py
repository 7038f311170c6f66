"""Results as tables of other libraries: rows in Arrow files, which `datasets` maps, and frames of pandas."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from hardneg.records import MissingDependency

_RUN = pa.schema([("query_id", pa.string()), ("doc_id", pa.string()), ("rank", pa.int32()), ("score", pa.float32())])

Lists = Iterable[tuple[str, Sequence[str], Any]]
"""A query's id, the ids of its documents, best first, and their scores."""


def _batches(lists: Lists) -> Iterable[pa.RecordBatch]:
    """A row a document of each list, counted from rank 1."""
    for query_id, doc_ids, scores in lists:
        columns = [pa.array([query_id] * len(doc_ids), pa.string()), pa.array(list(doc_ids), pa.string())]
        columns += [pa.array(range(1, len(doc_ids) + 1), pa.int32()), pa.array(scores, pa.float32())]
        yield pa.record_batch(columns, schema=_RUN)


def write_lists(lists: Lists, path: Path) -> None:
    """Write the rows of lists as an Arrow stream."""
    _write(path, _RUN, _batches(lists))


def write_parquet_rows(source: Path, path: Path) -> None:
    """Write the rows of a Parquet file as an Arrow stream, a thousand at a time."""
    with parquet.ParquetFile(source) as file:
        _write(path, file.schema_arrow, file.iter_batches(1000))


def _write(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def dataset_of(path: Path) -> Any:
    """The memory-mapped `datasets.Dataset` of an Arrow stream. Raises MissingDependency without `datasets`."""
    try:
        from datasets import Dataset
    except ImportError as error:
        raise MissingDependency('to_dataset needs datasets: pip install "hardneg[hub]"') from error
    return Dataset.from_file(str(path))


def frame_of_lists(lists: Lists) -> Any:
    """The `pandas.DataFrame` of the rows of lists. Raises MissingDependency where pandas is not installed."""
    return _framed(pa.Table.from_batches(list(_batches(lists)), _RUN))


def frame_of_rows(rows: list[dict[str, Any]]) -> Any:
    """The `pandas.DataFrame` of some rows. Raises MissingDependency where pandas is not installed."""
    return _framed(pa.Table.from_pylist(rows))


def _framed(table: pa.Table) -> Any:
    try:
        return table.to_pandas()
    except ImportError as error:
        raise MissingDependency("to_pandas needs pandas: pip install pandas") from error
