"""Problems found in a collection, with their locations, and counts of the collection's records."""

import os
import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from hardneg.plugin import errors

_CATEGORIES = (
    ("not UTF-8", "bytes that are not UTF-8"),
    ("cannot be read", "truncated or damaged files"),
    ("cut off", "truncated or damaged files"),
    ("white space or control", "invalid ids"),
    (" column", "wrong numbers of columns"),
    ("relevance ", "relevance that is not a whole number"),
    ("JSON", "lines that are not JSON objects"),
)
_MOST = 100_000
"""The maximum number of files to list in a folder."""


@dataclass(frozen=True)
class Problem:
    """A mistake in a file of a collection; `line` is 0 if it concerns the whole file.

    Warnings are accepted; other mistakes stop a run, are skipped, or distort results.
    """

    category: str
    file: str
    line: int
    reason: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def unreadable(error: errors.DataError, file: str, line: int) -> Problem:
    """Convert a reader's error to a problem. line: used if the error message has no line number."""
    match = re.match(rf"{re.escape(file)}(?::(\d+))?: ", str(error))
    reason = str(error)[match.end() :] if match else str(error)
    line = int(match[1]) if match and match[1] else line
    category = next((category for words, category in _CATEGORIES if words in reason), "lines that cannot be read")
    return Problem(category, file, line, reason)


@dataclass
class SplitContents:
    """The numbers of queries in a split, and of judgements with relevance above, at and below zero."""

    queries: int = 0
    relevant: int = 0
    zero: int = 0
    negative: int = 0


@dataclass
class Contents:
    """Counts of the readable records. unjudged: the number of queries without judgements. parts: names of the parts."""

    documents: int = 0
    splits: dict[str, SplitContents] = field(default_factory=dict)
    unjudged: int = 0
    parts: list[str] = field(default_factory=list)

    def files(self) -> list[Path]:
        """Return the paths of the parts that are files, each once."""
        return [path for path in map(Path, dict.fromkeys(self.parts)) if path.is_file()]

    def not_read(self, folder: Path) -> list[Path]:
        """Return the sorted paths of files in a folder that were not read, except hidden files."""
        read = {os.path.realpath(path) for path in self.files()}
        files = (path for path in folder.rglob("[!.]*") if path.is_file())
        shown = (path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))
        return sorted(path for path in islice(shown, _MOST) if os.path.realpath(path) not in read)
