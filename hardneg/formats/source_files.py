"""The parts of a collection: files or streams of records, in which a mistake does not end the reading; its splits."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar, cast, runtime_checkable

from hardneg.formats.qrels import Exclusion, HasExcluded, qrels_parser
from hardneg.formats.text_lines import checked_id, lines_or_errors
from hardneg.records import Collection, DataError, Document, Judgement, Membership, Query, counted
from hardneg.store import tree_digest

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
    yield _stream("documents", collection.documents)
    for what, read in (("queries", collection.queries), ("judgements", collection.qrels)):
        yield from (_stream(f"{what} of {split}", partial(read, split), split) for split in collection.splits())
    if isinstance(collection, HasExcluded):
        yield _stream("excluded documents", collection.excluded)


def _stream(name: str, records: Callable[[], Iterable[Record]], split: str | None = None) -> Part:
    def read() -> Iterator[tuple[int, Record | DataError]]:
        number = 0
        try:
            for number, record in enumerate(records(), 1):
                yield number, record
        except DataError as error:
            yield number + 1, error

    return Part(name, read, split)


def records(part: Part) -> Iterator[tuple[int, Record]]:
    """The numbered records of a part. Raises DataError at the first mistake."""
    for number, record in part.read():
        if isinstance(record, DataError):
            raise record
        yield number, record


def line_part(path: Path, parse: LineParser, split: str | None = None) -> Part:
    """A file of one record a line; `parse` raises DataError for a line that is none, and gives None for a header."""
    return Part(str(path), lambda: _parsed(path, parse), split)


def qrels_part(path: Path, split: str) -> Part:
    """A file of judgements."""
    return Part(str(path), lambda: _parsed(path, qrels_parser(path)), split)


def _parsed(path: Path, parse: LineParser) -> Iterator[tuple[int, Record | DataError]]:
    """The record of each line, or the error that stands in its place."""
    for number, line in lines_or_errors(path):
        try:
            record = line if isinstance(line, DataError) else parse(path, number, line)
        except DataError as error:
            record = error
        if record is not None:
            yield number, record


def order_splits(names: Iterable[str]) -> list[str]:
    """Split names in the order train, dev, test, then the others by name."""
    return sorted(set(names), key=lambda name: (_USUAL.index(name) if name in _USUAL else len(_USUAL), name))


def split_problem(name: str) -> str:
    """Why a split cannot have this name, which becomes that of a file; empty where it can."""
    if _NAME.fullmatch(name):
        return ""
    return f"split {name!r}: a name has letters, digits, '.', '_' and '-', and begins with a letter or digit; rename it"


_T = TypeVar("_T", Document, Query, Judgement)


@dataclass(frozen=True)
class PartedCollection:
    """Documents, and queries and judgements by split, as parts; a split's queries are those that its qrels name.

    left_out: one line for each file that is not read. all_queries: queries that no judgement names stay.
    """

    documents_in: Sequence[Part]
    queries_in: Mapping[str, Part]
    qrels_in: Mapping[str, Part]
    left_out: Sequence[str] = ()
    all_queries: bool = False
    _used: dict[str, set[str]] = field(default_factory=dict)
    _totals: dict[str, int] = field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        """The corpus, in the files' order."""
        return chain.from_iterable(_plain(part, Document) for part in self.documents_in)

    def splits(self) -> Sequence[str]:
        """The splits that have queries and qrels."""
        return list(self.queries_in)

    def queries(self, split: str) -> Iterator[Query]:
        """The queries that the split's qrels name, in the file's order.

        Raises DataError where an id occurs twice, is empty or has white space.
        """
        part = self.queries_in[split]
        named = None if self.all_queries else {judgement.query_id for judgement in self.qrels(split)}
        seen, used = set[str](), self._used.setdefault(part.name, set())
        for number, query in cast(Iterator[tuple[int, Query]], records(part)):
            checked_id(part.name, number, query.query_id)
            if query.query_id in seen:
                raise DataError.at(part.name, number, f"query id {query.query_id!r} stands there twice")
            seen.add(query.query_id)
            if named is None or query.query_id in named:
                used.add(query.query_id)
                yield query
        self._totals[part.name] = len(seen)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """The judgements of one split."""
        return _plain(self.qrels_in[split], Judgement)

    def notes(self) -> Sequence[str]:
        """Files that are not read, and how many queries no judgement names."""
        left = {source: total - len(self._used[source]) for source, total in self._totals.items()}
        told = ((source, counted(count, "query")) for source, count in left.items() if count)
        unjudged = [f"{source}: {queries} left out: no judgement names them" for source, queries in told]
        return [*self.left_out, *unjudged]

    def parts(self) -> Iterator[Part]:
        """All files, documents first, then queries, then judgements."""
        yield from self.documents_in
        yield from dict.fromkeys(self.queries_in.values())
        yield from self.qrels_in.values()

    def digest(self, root: Path) -> str:
        """A digest of the bytes of all files, which are named relative to `root`."""
        names = dict.fromkeys(Path(part.name).relative_to(root).as_posix() for part in self.parts())
        return tree_digest(root, list(names))


def _plain(part: Part, record_type: type[_T]) -> Iterator[_T]:
    return (record for _, record in records(part) if isinstance(record, record_type))
