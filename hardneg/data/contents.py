"""What a check has read of a collection: records by split, files, and the files beside them that it has not."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

_MOST = 100_000
"""How many files of a folder are looked at."""


@dataclass
class SplitContents:
    """What one split holds; judgements by what they say."""

    queries: int = 0
    relevant: int = 0
    zero: int = 0
    negative: int = 0


@dataclass
class Contents:
    """Counts of what could be read; `unjudged`: queries that no judgement of their split names; `parts` by name."""

    documents: int = 0
    splits: dict[str, SplitContents] = field(default_factory=dict)
    unjudged: int = 0
    parts: list[str] = field(default_factory=list)

    def files(self) -> list[Path]:
        """The parts that are files, each once."""
        return [path for path in map(Path, dict.fromkeys(self.parts)) if path.is_file()]

    def not_read(self, folder: Path) -> list[Path]:
        """The files in a folder, and in those in it, that are no part; hidden ones are not looked for."""
        read = {os.path.realpath(path) for path in self.files()}
        found = (path for path in _files(folder) if os.path.realpath(path) not in read)
        return sorted(found)


def _files(folder: Path) -> Iterator[Path]:
    def walk() -> Iterator[Path]:
        for place, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))

    return islice(walk(), _MOST)
