"""The rows of an index folder written in order, aside: the folder's own files are there when all is written."""

from collections.abc import Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from hardneg.formats.doc_ids import write_doc_ids
from hardneg.records import DOC_IDS, ArtifactError, UsageError


class _Unfinished(Exception):
    """Ends files that are not to be kept."""


class RowsWriter:
    """Writes the `count` rows of a folder; done: how many are written.

    Leaving a `with` block without `close` leaves no file that is half written.
    """

    def __init__(self, folder: Path, count: int, mark: str) -> None:
        """Begins a folder of which the file `mark` is written last. Raises ArtifactError where that is there."""
        if (folder / mark).exists():
            raise ArtifactError(f"{folder / mark}: already complete: delete the folder to write it anew")
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.count, self.done, self._files = folder, count, 0, ExitStack()

    @property
    def documents(self) -> int:
        """How many ids the folder has: one a row, unless a document has several."""
        return self.count

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Write the id of each row, in row order, streaming."""
        write_doc_ids(self.folder, doc_ids, self.documents)

    def _take(self, rows: int) -> None:
        """Counts rows that come next. Raises UsageError where there are too many."""
        if self.done + rows > self.count:
            raise UsageError(f"{self.folder}: {self.done + rows} rows of {self.count}")
        self.done += rows

    def _complete(self) -> None:
        """Puts the files in their places. Raises ArtifactError where a row, or the ids, are missing."""
        if self.done < self.count:
            raise ArtifactError(f"{self.folder}: the rows from {self.done} on are missing: write them first")
        if not (self.folder / DOC_IDS).exists():
            raise ArtifactError(f"{self.folder}: the document ids are missing: call write_doc_ids first")
        self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(_Unfinished):
            self._files.__exit__(_Unfinished, _Unfinished(), None)
            self._files = ExitStack()
