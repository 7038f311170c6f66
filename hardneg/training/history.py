"""The learning curve, one JSON object a line."""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from hardneg.store import replace_text

Record = dict[str, Any]


_log = logging.getLogger(__name__)


class History:
    """A file of records, each with its `step`; a record is in the file as soon as it is added."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, record: Record) -> None:
        """Appends one record, whole or not at all; what a kill left of one before it is removed.

        Raises:
            OSError: the disk is full; the file is as it was.
        """
        left = (json.dumps(record) + "\n").encode()
        with self._path.open("a+b", buffering=0) as file:
            whole = file.seek(0, os.SEEK_END)
            file.seek(max(0, whole - 1))
            if whole and file.read(1) != b"\n":  # what follows the last line is cut off
                file.seek(0)
                whole = file.readall().rfind(b"\n") + 1
                file.truncate(whole)
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                with suppress(OSError):
                    file.truncate(whole)
                raise

    def sync(self) -> None:
        with self._path.open("a") as file:
            os.fsync(file.fileno())

    def read(self) -> list[Record]:
        """All whole records; a line that a fault has cut off is left out."""
        if not self._path.exists():
            return []
        records: list[Record] = []
        for number, line in enumerate(self._path.read_text(encoding="utf-8").split("\n")[:-1], 1):
            record = None
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
            if isinstance(record, dict):
                records.append(record)
            else:
                _log.warning("%s:%d: not a whole record; left out", self._path, number)
        return records

    def truncate(self, step: int) -> None:
        """Forgets what came after `step`."""
        kept = [record for record in self.read() if record["step"] <= step]
        replace_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
