"""Local tables in Parquet or JSON Lines, as on the Hugging Face hub, and templates for queries with instructions."""

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hardneg.plugin import errors, stores

_ENDINGS = (".parquet", ".jsonl", ".jsonl.gz", ".json", ".json.gz")
_ROWS = 1024
TEMPLATE = "{query} {instruction}"
"""The default template: the query, a space and the instruction, as in Promptriever's training and mteb's FollowIR."""


class TableRow(NamedTuple):
    """One row of a table: its file, its number from 1, and its cells by column."""

    path: Path
    number: int
    cells: Mapping[str, Any]

    def text(self, column: str) -> str:
        """Return the text in a cell. Raises DataError if the cell is missing or not a string."""
        value = self.cells.get(column)
        if not isinstance(value, str):
            raise self.error(f"column {column!r} must contain text, not {value!r:.40}")
        return value

    def optional(self, column: str) -> str:
        """Return the text in a cell, or an empty string if there is none. Raises DataError for other values."""
        return "" if self.cells.get(column) is None else self.text(column)

    def id(self, column: str) -> str:
        """Return the id in a cell. Raises DataError if it is not an integer or a string without white space."""
        value = self.cells.get(column)
        name = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
        if name.split() != [name]:
            raise self.error(f"column {column!r} must contain an id without white space, not {value!r:.40}")
        return name

    def ids(self, column: str) -> list[str]:
        """Return the list of ids in a cell, empty if there is none. Raises DataError for other values and bad ids."""
        return [TableRow(self.path, self.number, {column: value}).id(column) for value in self._list(column)]

    def rows(self, column: str) -> list["TableRow"]:
        """Return the list of records in a cell, empty if there is none. Raises DataError for other values."""
        values = self._list(column)
        if not all(isinstance(value, Mapping) for value in values):
            raise self.error(f"column {column!r} must contain a list of records")
        return [TableRow(self.path, self.number, value) for value in values]

    def error(self, reason: str) -> errors.DataError:
        """Return a DataError with the file and number of this row."""
        return errors.DataError.at(self.path, self.number, reason)

    def _list(self, column: str) -> Sequence[Any]:
        value = self.cells.get(column)
        if value is not None and not isinstance(value, list):
            raise self.error(f"column {column!r} must contain a list, not {value!r:.40}")
        return value or ()


def check_template(template: str) -> None:
    """Raise PluginError if a template does not contain `{query}`, or has names other than `{instruction}` in braces."""
    try:
        written = template.format(query="\0", instruction="")
    except (KeyError, IndexError, ValueError):
        written = ""
    if "\0" not in written:
        raise errors.PluginError(f"template: must contain {{query}}, and may contain {{instruction}}, not {template!r}")


def instructed(template: str, query: str, instruction: str) -> str:
    """Return a template filled with a query and its instruction, or only the query if the instruction is empty."""
    return template.format(query=query, instruction=instruction).strip() if instruction else query


def table_files(folder: Path, *names: str) -> list[Path]:
    """Return the files of the first table in `names` that a folder contains; empty if it contains none.

    A table is one file, like `corpus.jsonl`, or all files of a folder, like `corpus/corpus-00000-of-00001.parquet`.
    """
    for name in names:
        files = [path for ending in _ENDINGS if (path := folder / f"{name}{ending}").is_file()]
        if files := files[:1] or files_in(folder / name):
            return files
    return []


def files_in(folder: Path) -> list[Path]:
    """Return the Parquet and JSON Lines files in a folder, sorted by name; empty if the folder is missing."""
    paths = folder.iterdir() if folder.is_dir() else ()
    return sorted(path for path in paths if path.name.endswith(_ENDINGS) and not path.name.startswith("."))


def read_tables(files: Sequence[Path]) -> Iterator[TableRow]:
    """Stream the rows of Parquet or JSON Lines files. Raises DataError for an unreadable file or malformed line."""
    for path in files:
        yield from _parquet(path) if path.suffix == ".parquet" else _json_lines(path)


def tables_digest(name: str, version: int, files: Sequence[Path], *options: Any) -> str:
    """Return a digest of a loader's name, version and options, and of the names and bytes of its files in order."""
    return stores.digest([name, version, *([path.name, stores.file_digest(path)] for path in files), *options])


def count_rows(files: Sequence[Path]) -> int:
    """Return the number of rows in Parquet files, from their metadata; JSON Lines files count as 0."""
    import pyarrow.parquet as pq

    return sum(int(pq.read_metadata(path).num_rows) for path in files if path.suffix == ".parquet")


def folder_of(source: str, form: str) -> Path:
    """Return the folder named by `source`. form: the loader's name, for errors. Raises DataError if it is missing."""
    if not source:
        raise errors.DataError(f"{form} needs a folder, as in {form}:FOLDER")
    folder = Path(source).expanduser()
    if not folder.is_dir():
        raise errors.DataError(f"{folder}: no such folder")
    return folder


def _parquet(path: Path) -> Iterator[TableRow]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = 0
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(_ROWS):
                for cells in batch.to_pylist():
                    number += 1
                    yield TableRow(path, number, cells)
    except (OSError, pa.ArrowException) as error:
        raise errors.DataError.at(path, number + 1, f"cannot be read ({str(error).splitlines()[0]})") from error


def _json_lines(path: Path) -> Iterator[TableRow]:
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    cells = json.loads(line)
                    if not isinstance(cells, dict):
                        raise errors.DataError.at(path, number, "each line must be a JSON object")
                    yield TableRow(path, number, cells)
    except (OSError, EOFError, ValueError) as error:
        raise errors.DataError.at(path, max(number, 1), f"cannot be read ({error})") from error
