"""The mistakes of a collection: where each is, what it is, and of which kind."""

import re
from dataclasses import dataclass

from hardneg.errors import DataError

_KINDS = (
    ("not UTF-8", "bytes that are not UTF-8"),
    ("cannot be read", "files that are cut off or damaged"),
    ("cut off", "files that are cut off or damaged"),
    ("white space or control", "ids that are not one word"),
    (" column", "wrong numbers of columns"),
    ("relevance ", "relevance that is no whole number"),
    ("JSON", "lines that are not JSON objects"),
    ("not a text file", "files of another kind"),
)


class Unplaced(DataError):
    """A mistake met among records, far from its file; `kind` is that of the `Problem` that tells where it stands."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


@dataclass(frozen=True)
class Problem:
    """One mistake. Problems of one kind are counted together; `line` is 0 where it is about a whole file.

    An error is what hardneg refuses, leaves out, or what makes figures wrong; a warning is what it takes as it is.
    """

    kind: str
    file: str
    line: int
    reason: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.reason}" if self.line else f"{self.file}: {self.reason}"


def unreadable(error: DataError, file: str, line: int) -> Problem:
    """The problem that a reader's error is; the line is the one that the error names, where it names one."""
    told = re.match(rf"{re.escape(file)}(?::(\d+))?: ", str(error))
    reason = str(error)[told.end() :] if told else str(error)
    line = int(told[1]) if told and told[1] else line
    kind = next((kind for words, kind in _KINDS if words in reason), "lines that cannot be read")
    return Problem(kind, file, line, reason)
