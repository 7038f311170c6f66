"""The ids in pushed files: of an index, runs and negatives; none may be a path of this machine."""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from pyarrow import ArrowException, parquet

from hardneg.doors.hub.upload import HubFile
from hardneg.records.errors import DataError
from hardneg.records.layout import DOC_IDS

_RUN = ".trec.gz"
_TABLE = ".parquet"
_COLUMNS = ("query_id", "positives", "negatives")
_CHUNK = 1 << 22


def id_texts(file: HubFile) -> Iterator[str]:
    """Parts of a text with all ids of a file, and the tags of a run; nothing for a file without ids.

    Ids within a Lucene index are not among them.

    Raises:
        DataError: it cannot be read.
    """
    name = Path(file.path).name
    if isinstance(file.source, bytes):
        return
    try:
        if name == DOC_IDS:
            with file.source.open(encoding="utf-8", errors="replace") as lines:
                yield from iter(lambda: "".join(lines.readlines(_CHUNK)), "")
        elif name.endswith(_RUN):
            with gzip.open(file.source, "rt", encoding="utf-8", errors="replace") as lines:
                yield from iter(lambda: "".join(lines.readlines(_CHUNK)), "")
        elif name.endswith(_TABLE):
            yield from _of_table(file.source)
    except (OSError, EOFError, zlib.error, ArrowException) as error:
        raise DataError(
            f"{file.source}: cannot be read ({error}): what it holds is not known; build the index again"
        ) from None


def local_path_in(text: str) -> str | None:
    """The first word of a text that is a path of this machine: its first folder is there."""
    match = _pattern().search(text)
    return match[0] if match else None


def _of_table(path: Path) -> Iterator[str]:
    with parquet.ParquetFile(path) as file:
        columns = [name for name in _COLUMNS if name in file.schema_arrow.names]
        for batch in file.iter_batches(columns=columns) if columns else ():
            for column in batch.columns:
                values = column.flatten() if hasattr(column, "flatten") and column.type.num_fields else column
                yield "\n".join(map(str, values.to_pylist()))


@cache
def _pattern() -> re.Pattern[str]:
    folders = "|".join(re.escape(name) for name in sorted(os.listdir(os.sep)))
    return re.compile(rf"(?<!\S)/(?:{folders})/\S+")
