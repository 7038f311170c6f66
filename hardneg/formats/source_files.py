"""Read the source files of a collection part by part, continuing after mistakes; read files of queries."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Protocol, TypeVar, cast, runtime_checkable

from hardneg.formats import qrels, text_lines
from hardneg.records import Collection, DataError, Document, Judgement, Membership, Query, counted
from hardneg.store import tree_digest

Record = Document | Query | Judgement | qrels.Exclusion | Membership
LineParser = Callable[[Path, int, str], Record | None]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USUAL = ("train", "dev", "test")
_IDS = ("qid", "query_id", "id", "_id")
_TEXTS = ("title", "query", "text", "contents")
_SHOWN = 10
OWN = "queries left out: already in the dataset"
SAME_TEXT = "new queries with the same text as a query of the dataset"


@dataclass(frozen=True)
class Part:
    """One file or one stream of a collection.

    name: the file's path or the stream's name; together with a line or row number, it locates a record.
    read: a function that opens the part and yields numbered records; a DataError replaces an unreadable record.
    split: the split of the queries or judgements; None for queries of all splits and for documents.
    """

    name: str
    read: Callable[[], Iterator[tuple[int, Record | DataError]]]
    split: str | None = None


@runtime_checkable
class HasParts(Protocol):
    """A collection that can be read part by part, continuing after mistakes."""

    def parts(self) -> Iterator[Part]:
        """Yield the parts: documents first, then queries, judgements and excluded documents."""


def parts_of(collection: Collection) -> Iterator[Part]:
    """Yield the parts of any collection. If it has no method `parts`, each part ends at its first error."""
    if isinstance(collection, HasParts):
        yield from collection.parts()
        return
    yield _stream("documents", collection.documents)
    for what, read in (("queries", collection.queries), ("judgements", collection.qrels)):
        yield from (_stream(f"{what} of {split}", partial(read, split), split) for split in collection.splits())
    if isinstance(collection, qrels.HasExcluded):
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
    """Yield the records of a part with their line or row numbers. Raises DataError at the first mistake."""
    for number, record in part.read():
        if isinstance(record, DataError):
            raise record
        yield number, record


def line_part(path: Path, parse: LineParser | None, split: str | None = None) -> Part:
    """Return the part for a file with one record per line.

    parse: a function that returns None for a header and raises DataError for a bad line; None to parse judgements.
    """
    return Part(str(path), lambda: _parsed(path, parse or qrels.qrels_parser(path)), split)


def _parsed(path: Path, parse: LineParser) -> Iterator[tuple[int, Record | DataError]]:
    """The record of each line, or its error."""
    for number, line in text_lines.lines_or_errors(path):
        try:
            record = line if isinstance(line, DataError) else parse(path, number, line)
        except DataError as error:
            record = error
        if record is not None:
            yield number, record


def order_splits(names: Iterable[str]) -> list[str]:
    """Return the distinct split names: train, dev and test first, then the others in alphabetical order."""
    return sorted(set(names), key=lambda name: (_USUAL.index(name) if name in _USUAL else len(_USUAL), name))


def split_problem(name: str) -> str:
    """Return a message if a split name, which becomes a file name, is invalid; otherwise, an empty string."""
    if _NAME.fullmatch(name):
        return ""
    return f"split {name!r}: rename it to start with a letter or digit and use only letters, digits, '.', '_' and '-'"


_T = TypeVar("_T", Document, Query, Judgement)


@dataclass(frozen=True)
class PartedCollection:
    """A collection read from parts: documents, and queries and judgements by split.

    left_out: one note per file that is not read. all_queries: whether splits keep queries without judgements.
    """

    documents_in: Sequence[Part]
    queries_in: Mapping[str, Part]
    qrels_in: Mapping[str, Part]
    left_out: Sequence[str] = ()
    all_queries: bool = False
    _used: dict[str, set[str]] = field(default_factory=dict)
    _totals: dict[str, int] = field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        """Yield all documents, file by file."""
        return chain.from_iterable(_plain(part, Document) for part in self.documents_in)

    def splits(self) -> Sequence[str]:
        """The splits that have queries and qrels."""
        return list(self.queries_in)

    def queries(self, split: str) -> Iterator[Query]:
        """Yield the split's queries in file order; unless `all_queries` is true, only those with judgements.

        Raises DataError if an id is repeated, empty or has white space.
        """
        part = self.queries_in[split]
        named = None if self.all_queries else {judgement.query_id for judgement in self.qrels(split)}
        seen, used = set[str](), self._used.setdefault(part.name, set())
        for number, query in cast(Iterator[tuple[int, Query]], records(part)):
            text_lines.checked_id(part.name, number, query.query_id)
            if query.query_id in seen:
                raise DataError.at(part.name, number, f"query id {query.query_id!r} is repeated; make ids unique")
            seen.add(query.query_id)
            if named is None or query.query_id in named:
                used.add(query.query_id)
                yield query
        self._totals[part.name] = len(seen)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Yield the judgements of one split. Raises DataError at the first mistake."""
        return _plain(self.qrels_in[split], Judgement)

    def notes(self) -> Sequence[str]:
        """Return one note per file that is not read, and one per file with queries left out for lack of judgements."""
        unused = {source: total - len(self._used[source]) for source, total in self._totals.items()}
        counts = ((source, counted(count, "query")) for source, count in unused.items() if count)
        return [*self.left_out, *(f"{source}: {queries} without judgements left out" for source, queries in counts)]

    def parts(self) -> Iterator[Part]:
        """Yield the parts of all files: documents, then queries, then judgements."""
        yield from self.documents_in
        yield from dict.fromkeys(self.queries_in.values())
        yield from self.qrels_in.values()

    def digest(self, root: Path) -> str:
        """A digest of the bytes of all files and of their names relative to `root`."""
        names = dict.fromkeys(Path(part.name).relative_to(root).as_posix() for part in self.parts())
        return tree_digest(root, list(names))


def _plain(part: Part, record_type: type[_T]) -> Iterator[_T]:
    return (record for _, record in records(part) if isinstance(record, record_type))


def queries_part(path: Path, split: str | None = None) -> Part:
    """Return the part for a file of queries, plain or gzip: lines of id, tab and text, or JSON Lines.

    A JSON object has an id (`qid`, `query_id`, `id` or `_id`) and a text (`title`, `query`, `text` or `contents`).
    """

    def parse(path: Path, number: int, line: str) -> Query:
        if line.startswith("<"):
            advice = "to read TREC topics, use the loader pyserini of package hardneg-datasets"
            raise DataError.at(path, number, f"expected an id, a tab and the text; {advice}")
        if not line.startswith(("{", "[")):
            return query_line(path, number, line)
        row = text_lines.json_row(path, number, line)
        key = next((key for key in _TEXTS if key in row), _TEXTS[0])
        return Query(text_lines.id_field(path, number, row, *_IDS), text_lines.text_field(path, number, row, key))

    return line_part(path, parse, split)


def query_line(path: Path, number: int, line: str) -> Query:
    """Parse a line with an id, a tab and the query's text. Raises DataError for any other line."""
    cells = line.split("\t")
    if len(cells) != 2:
        raise DataError.at(path, number, f"expected 2 columns (id and text, separated by a tab), found {len(cells)}")
    return Query(text_lines.checked_id(path, number, cells[0]), cells[1])


def read_query_file(path: Path, known: Mapping[str, str], facts: Counter[str]) -> Iterator[Query]:
    """Yield the queries of a file in order, except those with an id in `known`, which are counted in `facts`.

    Args:
        path: a file in a format that `queries_part` reads.
        known: the texts of the collection's own queries, by id.
        facts: counts of known queries and of new queries with a known text, updated during iteration.

    Raises DataError at the end, listing the first ten mistakes with their lines: invalid lines, missing texts,
    repeated ids, and ids that have another text in the collection.
    """
    problems, lines = list[str](), dict[str, int]()
    texts = frozenset(known.values())
    for number, record in queries_part(path).read():
        if not isinstance(record, Query):
            problems.append(str(record))
            continue
        query_id, problem = record.query_id, ""
        if not record.text.strip():
            problem = "has no text"
        elif query_id in lines:
            problem = f"repeats the id of line {lines[query_id]}; make ids unique"
        elif known.get(query_id, record.text) != record.text:
            problem = "has another text in the dataset; give it a new id"
        if problem:
            problems.append(f"{path}:{number}: query {query_id!r} {problem}")
        elif query_id in known:
            facts[OWN] += 1
        else:
            lines[query_id] = number
            facts[SAME_TEXT] += record.text in texts
            yield record
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        raise DataError("\n".join([*problems[:_SHOWN], *more]))
