"""The learning curve, one JSON object a line."""

import json
import os
from pathlib import Path
from typing import Any

from hardneg.replacing import replace_text

Record = dict[str, Any]

HISTORY = "history.jsonl"
"""The file's name in a training folder."""


class History:
    """A file of records, each with its `step`; a record is in the file as soon as it is added."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, record: Record) -> None:
        """Appends one record."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def sync(self) -> None:
        """Waits until all records are on disk."""
        with self._path.open("a") as file:
            os.fsync(file.fileno())

    def read(self) -> list[Record]:
        """All whole records; a line that a kill cut off is left out."""
        if not self._path.exists():
            return []
        lines = self._path.read_text(encoding="utf-8").split("\n")[:-1]
        return [json.loads(line) for line in lines]

    def truncate(self, step: int) -> None:
        """Forgets what came after `step`."""
        kept = [record for record in self.read() if record["step"] <= step]
        replace_text(self._path, "".join(json.dumps(record) + "\n" for record in kept))
