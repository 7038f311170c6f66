"""The parts of a collection: files or streams of records, in which a mistake does not end the reading.

Also the names of splits: their order, and which a collection may have.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, runtime_checkable

from hardneg.formats.id_pairs import Exclusion, HasExcluded
from hardneg.formats.qrels import qrels_parser
from hardneg.formats.text_lines import lines_or_errors
from hardneg.records.errors import DataError
from hardneg.records.types import Collection, Document, Judgement, Membership, Query

Record = Document | Query | Judgement | Exclusion | Membership
LineParser = Callable[[Path, int, str], Record | None]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USUAL = ("train", "dev", "test")


@dataclass(frozen=True)
class Part:
    """One file, or one stream, of a collection.

    name: the file's path, or what is streamed; with a line or row number it is a location.
    read: opens it; yields numbered records, and an error for what cannot be read.
    split: whose queries and judgements these are; None for queries of all splits, and for documents.
    """

    name: str
    read: Callable[[], Iterator[tuple[int, Record | DataError]]]
    split: str | None = None


@runtime_checkable
class HasParts(Protocol):
    """A collection that can be read part by part, past its mistakes."""

    def parts(self) -> Iterator[Part]:
        """Documents first, then queries, then judgements, then excluded documents."""


def parts_of(collection: Collection) -> Iterator[Part]:
    """The parts of any collection; of one without `parts` a source's first error ends the reading of that source."""
    if isinstance(collection, HasParts):
        yield from collection.parts()
        return
    yield Part("documents", lambda: _numbered(collection.documents()))
    for what, read in (("queries", collection.queries), ("judgements", collection.qrels)):
        for split in collection.splits():
            yield Part(f"{what} of {split}", partial(_stream, read, split), split)
    if isinstance(collection, HasExcluded):
        yield Part("excluded documents", lambda: _numbered(collection.excluded()))


def records(part: Part) -> Iterator[tuple[int, Record]]:
    """The numbered records of a part. Raises DataError at the first mistake."""
    for number, record in part.read():
        if isinstance(record, DataError):
            raise record
        yield number, record


def line_part(path: Path, parse: LineParser) -> Part:
    """A file of one record a line; `parse` raises DataError for a line that is none, and gives None for a header."""
    return Part(str(path), lambda: parsed(path, lines_or_errors(path), parse))


def qrels_part(path: Path, split: str) -> Part:
    """A file of judgements."""

    def read() -> Iterator[tuple[int, Record | DataError]]:
        parse = qrels_parser(path)
        return parsed(path, lines_or_errors(path), lambda _, number, line: parse(number, line))

    return Part(str(path), read, split)


def _stream(read: Callable[[str], Iterator[Record]], split: str) -> Iterator[tuple[int, Record | DataError]]:
    return _numbered(read(split))


def parsed(
    path: Path, lines: Iterable[tuple[int, str | DataError]], parse: LineParser
) -> Iterator[tuple[int, Record | DataError]]:
    """The record of each line, or the error that stands in its place."""
    for number, line in lines:
        try:
            record = line if isinstance(line, DataError) else parse(path, number, line)
        except DataError as error:
            record = error
        if record is not None:
            yield number, record


def _numbered(records: Iterable[Record]) -> Iterator[tuple[int, Record | DataError]]:
    number = 0
    try:
        for number, record in enumerate(records, 1):
            yield number, record
    except DataError as error:
        yield number + 1, error


def order_splits(names: Iterable[str]) -> list[str]:
    """Split names in the order train, dev, test, then the others by name."""
    return sorted(set(names), key=lambda name: (_USUAL.index(name) if name in _USUAL else len(_USUAL), name))


def split_problem(name: str) -> str:
    """Why a split cannot have this name, which becomes that of a file; empty where it can."""
    if _NAME.fullmatch(name):
        return ""
    return f"split {name!r}: a name has letters, digits, '.', '_' and '-', and begins with a letter or digit; rename it"
