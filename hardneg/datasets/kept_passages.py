"""Passages of a folder's files, kept in the user's cache: what has not changed is neither parsed nor cut again."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from hardneg.datasets.passages import Passage
from hardneg.records.errors import DataError
from hardneg.store.atomic_write import aside
from hardneg.store.choices import cache_folder
from hardneg.store.digest import Content, digest, file_digest

Row = tuple[int, Passage | DataError]
"""A passage and the row of the file that it is of, 0 where that is one document; or an error and its line."""


@dataclass(frozen=True)
class KeptPassages:
    """One file of passages for each file of documents, by its bytes; the last line of each is the digest of the others.

    Files of which something cannot be read are not kept, and nothing is where the cache cannot be written.

    folder: in the user's cache. used: the names of those that were read or written since it was opened. damaged: of
    those that were not whole, whose documents were read again.
    """

    folder: Path
    used: set[str] = field(default_factory=set)
    damaged: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, documents: Path, options: Any) -> "KeptPassages":
        """Those of a folder of documents that is read and cut with these options, as JSON has them."""
        return cls(cache_folder() / "documents" / digest([str(documents.resolve()), options]))

    def rows(self, path: Path, form: str, read: Callable[[], Iterator[Row]]) -> Iterator[Row]:
        """What `read` yields for a file, kept or read now. form: of the file, and what reads it."""
        try:
            content = Content.of(lambda: digest([form, file_digest(path)]))
        except OSError:  # `read` says why
            yield from read()
            return
        self.used.add(content.digest)
        kept = self._opened(content.digest)
        if kept is None:
            yield from self._read(content, read())
            return
        with kept:
            for line in kept:
                if line.startswith(b"["):
                    row, *passage = json.loads(line)
                    yield row, Passage(*passage)

    def prune(self) -> None:
        """Removes those of files that have changed or gone; to be called after all files were read."""
        with suppress(OSError):
            for path in [path for path in self.folder.iterdir() if path.name not in self.used]:
                path.unlink(missing_ok=True)

    def _opened(self, name: str) -> IO[bytes] | None:
        """The file of this name, from its start; None where there is none, or it is not whole."""
        try:
            file = (self.folder / name).open("rb")
        except OSError:
            return None
        state, last = hashlib.blake2b(), b""
        for line in file:
            state.update(last)
            last = line
        if last.rstrip(b"\n").decode("ascii", "replace") == state.hexdigest():
            file.seek(0)
            return file
        file.close()
        self.damaged.add(name)
        return None

    def _read(self, content: Content, rows: Iterator[Row]) -> Iterator[Row]:
        """The rows, written to a file of this name when all of them were read. Raises DataError if that has changed."""
        path = self.folder / content.digest
        whole, state, new = True, hashlib.blake2b(), aside(path)
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
        try:
            file = new.open("xb")
        except OSError:
            yield from rows
            return
        try:
            for row, item in rows:
                if isinstance(item, DataError):
                    whole = False
                elif whole:
                    line = json.dumps([row, *item]).encode() + b"\n"
                    state.update(line)
                    whole = _written(file, line)
                yield row, item
            content.check()
            if whole and _written(file, state.hexdigest().encode() + b"\n"):
                with suppress(OSError):
                    file.close()
                    os.replace(new, path)
        finally:
            with suppress(OSError):
                file.close()
            new.unlink(missing_ok=True)


def _written(file: IO[bytes], line: bytes) -> bool:
    try:
        return file.write(line) == len(line)
    except OSError:  # the disk is full: read on without it
        return False
