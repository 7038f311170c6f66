"""The problems of a collection, each with its location and category, and counts of what was read."""

import os
import re
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from hardneg.plugin import errors

_CATEGORIES = (
    ("not UTF-8", "bytes that are not UTF-8"),
    ("cannot be read", "files that are cut off or damaged"),
    ("cut off", "files that are cut off or damaged"),
    ("white space or control", "ids that are not one word"),
    (" column", "wrong numbers of columns"),
    ("relevance ", "relevance that is no whole number"),
    ("JSON", "lines that are not JSON objects"),
)
_MOST = 100_000
"""How many files of a folder are looked at."""


@dataclass(frozen=True)
class Problem:
    """One mistake. Problems of one category are counted together; `line` is 0 where it is about a whole file.

    Errors are refused, left out, or make figures wrong; warnings are accepted as they are.
    """

    category: str
    file: str
    line: int
    reason: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def unreadable(error: errors.DataError, file: str, line: int) -> Problem:
    """A reader's error as a problem; the line is the one that the error names, else `line`."""
    match = re.match(rf"{re.escape(file)}(?::(\d+))?: ", str(error))
    reason = str(error)[match.end() :] if match else str(error)
    line = int(match[1]) if match and match[1] else line
    category = next((category for words, category in _CATEGORIES if words in reason), "lines that cannot be read")
    return Problem(category, file, line, reason)


@dataclass
class SplitContents:
    """Counts of one split; judgements by the sign of their relevance."""

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
        files = (path for path in folder.rglob("[!.]*") if path.is_file())
        shown = (path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts))
        return sorted(path for path in islice(shown, _MOST) if os.path.realpath(path) not in read)
