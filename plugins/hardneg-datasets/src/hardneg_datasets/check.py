"""A one-pass check for mistakes in a collection; it stores hashes of ids and texts, 100 bytes per document."""

import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hardneg.plugin import Document, Judgement, Query, arrays, errors, runtime, source_files, text_lines
from hardneg_datasets.problems import Contents, Problem, SplitContents, unreadable

_BLOCK, _LINE_BITS = 4096, 48
_TEXTS = np.dtype([(name, np.uint64) for name in ("at", "id", "text", "folded", "own", "number")])
"""A document or query: its location, and hashes of its id, its text, its case-folded text, and of id and text together.

An empty text has the hash 0. number: the position among all queries.
"""
_JUDGED = np.dtype([("at", np.uint64), ("query", np.uint64), ("pair", np.uint64), ("relevance", np.int64)])

Hashes = NDArray[np.uint64]
Rows = NDArray[Any]
"""Rows of `_TEXTS` or of `_JUDGED`."""
Located = Sequence[tuple[int, Any]]
"""Records with their locations; one integer encodes the number of the part and the line in that part."""


def check(
    parts: Iterable[source_files.Part], progress: runtime.Progress | None = None, contents: Contents | None = None
) -> Iterator[Problem]:
    """Yield the problems in a collection; problems that concern the collection as a whole come last.

    Ids and texts are compared by 64-bit hashes; the chance of a false alarm among 10 million is 1 in 400,000.

    Args:
        parts: the parts of the collection: documents first, and queries before their judgements.
        progress: reports the number of records read from each part.
        contents: updated with counts of the records; complete after the last problem.
    """
    checker = _Checker(Contents() if contents is None else contents)
    for part in parts:
        with (progress or runtime.Silent()).task(Path(part.name).name, None, "records") as task:
            yield from checker.read(part, task)
    yield from checker.finish()


def _fold(text: str) -> str:
    """Fold case and compatible characters, such as ﬁ and fi, and normalise white space."""
    return text.lower() if text.isascii() else arrays.normalise(unicodedata.normalize("NFKC", text).casefold())


class _Table:
    """A table of numbers, appended in blocks."""

    def __init__(self, columns: np.dtype[Any]) -> None:
        self._columns, self._content = columns, bytearray()

    def add(self, located: Located, **columns: Any) -> None:
        block = np.zeros(len(located), self._columns)
        block["at"] = [location for location, _ in located]
        for name, values in columns.items():
            block[name] = values
        self._content += block.tobytes()

    @property
    def rows(self) -> Rows:
        return np.frombuffer(self._content, self._columns)


class _Members(NamedTuple):
    """The queries of one split: rows of `_TEXTS`, and the locations of their first judgements, or of the queries."""

    split: str
    rows: Rows
    lines: Hashes


class _Checker:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._parts: list[source_files.Part] = []
        self._documents = _Table(_TEXTS)
        self._queries: dict[str | None, _Table] = {}
        self._query_ids: list[pa.Array] = []
        self._asked = 0
        self._judged: dict[str, _Table] = {}
        self._known: dict[str, Hashes] = {}

    def read(self, part: source_files.Part, task: runtime.Task) -> Iterator[Problem]:
        self._parts.append(part)
        base, count = len(self._parts) - 1 << _LINE_BITS, 0
        if part.split is not None and part.split not in self._contents.splits:
            self._contents.splits[part.split] = SplitContents()
            if reason := source_files.split_problem(part.split):
                yield Problem("names of splits", part.name, 0, reason)
        self._contents.parts.append(part.name)
        records = _opened(part)
        while block := list(islice(records, _BLOCK)):
            yield from (unreadable(item, part.name, line) for line, item in block if isinstance(item, errors.DataError))
            for kind, take in (
                (Document, self._take_documents),
                (Query, self._take_queries),
                (Judgement, self._take_judgements),
            ):
                if located := [(base | line, item) for line, item in block if isinstance(item, kind)]:
                    count += len(located)
                    yield from take(located, part.split)
            task.advance(len(block))
        if part.split is not None and not count:
            yield _nothing_to_judge_by(part, "no readable record")

    def finish(self) -> Iterator[Problem]:
        members = [self._members(split) for split in self._contents.splits]
        self._count(members)
        yield from self._repeated_ids(self._documents.rows, "document")
        for table in self._queries.values():
            yield from self._repeated_ids(table.rows, "query")
        yield from self._other_texts(members)
        leaked = set[int]()
        for one, other in combinations(members, 2):
            if not (one.split.startswith(f"{other.split}.") or other.split.startswith(f"{one.split}.")):
                yield from self._shared(one, other, leaked)
        yield from self._repeated_texts(self._documents.rows, "document", set())
        yield from self._repeated_texts(_joined(self._queries.values()), "query", leaked)
        for table in self._judged.values():
            yield from self._judged_twice(table.rows)
        yield from self._nothing()

    def _at(self, location: int) -> tuple[str, int]:
        location = int(location)
        return self._parts[location >> _LINE_BITS].name, location & (1 << _LINE_BITS) - 1

    def _place(self, location: int) -> str:
        return "{}:{}".format(*self._at(location))

    def _problem(self, category: str, location: int, reason: str, warning: bool = False) -> Problem:
        return Problem(category, *self._at(location), reason, warning)

    def _take_documents(self, located: Located, split: str | None) -> Iterator[Problem]:
        _add_texts(self._documents, located, [item.contents for _, item in located])
        return self._text_problems(located)

    def _take_queries(self, located: Located, split: str | None) -> Iterator[Problem]:
        table = self._queries.setdefault(split, _Table(_TEXTS))
        numbers = np.arange(self._asked, self._asked + len(located))
        own = _add_texts(table, located, [item.text for _, item in located], numbers)
        self._query_ids.append(pa.array([item.query_id for _, item in located], pa.string()))
        self._asked += len(located)
        for i in np.flatnonzero(np.isin(own, self._every["own"])).tolist():
            location, item = located[i]
            reason = f"{item.query_id!r} is also a document with this text; `dataset.exclude_own=true` excludes it"
            yield self._problem("queries that are documents", location, reason, warning=True)
        yield from self._text_problems(located)

    def _text_problems(self, located: Located) -> Iterator[Problem]:
        for location, item in located:
            name, contents = item[0], item.contents if isinstance(item, Document) else item.text
            if not text_lines.one_word(name):
                yield self._problem("invalid ids", location, text_lines.id_problem(name))
            if not contents.strip():
                yield self._problem("empty texts", location, f"{name} has no text")

    def _take_judgements(self, located: Located, split: str | None) -> Iterator[Problem]:
        """Check judgements; all documents, and the queries of the split, have been read."""
        split = split or ""
        if split not in self._known:
            tables = [self._queries[name] for name in (split, None) if name in self._queries]
            self._known[split] = np.unique(_joined(tables)["id"])
        queries, documents = (arrays.hash_texts(item[at] for _, item in located) for at in (0, 1))
        for i in np.flatnonzero(~np.isin(queries, self._known[split])).tolist():
            reason = f"query {located[i][1].query_id!r} is not among the queries"
            yield self._problem("judgements of unknown queries", located[i][0], reason)
        for i in np.flatnonzero(~np.isin(documents, self._every["documents"])).tolist():
            reason = f"document {located[i][1].doc_id!r} is not in the corpus"
            yield self._problem("judgements of unknown documents", located[i][0], reason)
        pairs = arrays.hash_texts(f"{item.query_id} {item.doc_id}" for _, item in located)
        relevance = [item.relevance for _, item in located]
        self._judged.setdefault(split, _Table(_JUDGED)).add(located, query=queries, pair=pairs, relevance=relevance)

    @cached_property
    def _every(self) -> Mapping[str, Hashes]:
        """Sorted hashes of all documents' ids, and of ids and texts together; all documents have been read."""
        rows = self._documents.rows
        return {"documents": np.unique(rows["id"]), "own": np.unique(rows["own"])}

    def _members(self, split: str) -> _Members:
        """The judged queries of a split, or all of its queries if it has no judgements."""
        names = (split, None) if split in self._judged else (split,)
        rows = _joined(self._queries[name] for name in names if name in self._queries)
        if split not in self._judged:
            return _Members(split, rows, rows["at"])
        judged = self._judged[split].rows
        named, first = np.unique(judged["query"], return_index=True)
        rows = rows[np.isin(rows["id"], named)]
        return _Members(split, rows, judged["at"][first][np.searchsorted(named, rows["id"])])

    def _count(self, members: Sequence[_Members]) -> None:
        self._contents.documents = len(self._documents.rows)
        for split, rows, _ in members:
            counts = self._contents.splits[split]
            counts.queries = len(rows)
            judged = [self._judged[split]] if split in self._judged else []
            relevance = _joined(judged, _JUDGED)["relevance"]
            counts.relevant, counts.zero = int((relevance > 0).sum()), int((relevance == 0).sum())
            counts.negative = len(relevance) - counts.relevant - counts.zero
        used = np.unique(np.concatenate([np.empty(0, np.uint64), *(rows["at"] for _, rows, _ in members)]))
        self._contents.unjudged = int((~np.isin(_joined(self._queries.values())["at"], used)).sum())

    def _nothing(self) -> Iterator[Problem]:
        if not self._contents.documents:
            yield Problem("nothing to search", self._parts[0].name, 0, "no readable document")
        for split, counts in self._contents.splits.items():
            if split in self._judged and not counts.relevant:
                part = self._parts[int(self._judged[split].rows["at"][0]) >> _LINE_BITS]
                yield _nothing_to_judge_by(part, f"none of the {counts.zero + counts.negative} grades is above zero")
        if not self._judged and not self._contents.splits:
            yield Problem("nothing to judge by", self._parts[-1].name, 0, "no splits", warning=True)

    def _repeated_ids(self, rows: Rows, what: str) -> Iterator[Problem]:
        for first, again in _repeats(rows["id"]):
            reason = f"repeats the {what} id of {self._place(rows['at'][first])}"
            yield self._problem(f"repeated {what} ids", rows["at"][again], reason)

    def _repeated_texts(self, rows: Rows, what: str, leaked: set[int]) -> Iterator[Problem]:
        for first, again in _repeats(rows["text"]):
            location = rows["at"][again]
            if rows["text"][again] and rows["id"][first] != rows["id"][again] and location not in leaked:
                reason = f"same text as {self._place(rows['at'][first])}, under another id"
                yield self._problem(f"{what} texts under two ids", location, reason, warning=True)

    def _judged_twice(self, rows: Rows) -> Iterator[Problem]:
        for first, again in _repeats(rows["pair"]):
            before, now = rows["relevance"][first], rows["relevance"][again]
            location, earlier = rows["at"][again], self._place(int(rows["at"][first]))
            if before == now:
                yield self._problem("repeated judgements", location, f"repeats {earlier}", warning=True)
            else:
                reason = f"relevance {now}, but {before} at {earlier}"
                yield self._problem("contradictory judgements", location, reason)

    def _other_texts(self, members: Sequence[_Members]) -> Iterator[Problem]:
        """Ids of queries with different texts in different splits."""
        rows = np.concatenate([np.empty(0, _TEXTS), *(each.rows for each in members)])
        owner = np.repeat(np.arange(len(members)), [len(each.rows) for each in members])
        for first, again in _repeats(rows["id"]):
            if owner[first] != owner[again] and rows["text"][first] != rows["text"][again]:
                reason = f"same id as {self._place(rows['at'][first])}, with another text"
                yield self._problem("query ids with two texts", rows["at"][again], reason)

    def _shared(self, one: _Members, other: _Members, leaked: set[int]) -> Iterator[Problem]:
        """Queries in two splits, by id, or by text under different ids, whose locations are added to `leaked`."""
        ids = pa.chunked_array(self._query_ids, pa.string())
        for a, b in _matches(one.rows["id"], other.rows["id"], other.lines):
            name, there = ids[other.rows["number"][b]].as_py(), self._place(one.lines[a])
            reason = f"query {name!r} is judged both here in {other.split} and in {one.split} at {there}"
            yield self._problem("queries in two splits", other.lines[b], reason)
        in_both = np.isin(other.rows["id"], one.rows["id"])
        for a, b in _matches(one.rows["folded"], other.rows["folded"], other.lines):
            first, second = one.rows[a], other.rows[b]
            if in_both[b] or not second["folded"]:
                continue
            leaked.add(int(second["at"]))
            own, theirs = (ids[each["number"]].as_py() for each in (second, first))
            same = "the text" if first["text"] == second["text"] else "the text (ignoring case and form)"
            reason = f"query {own!r} of {other.split} has {same} of query {theirs!r} of {one.split} at"
            places = " and ".join(self._place(each["at"]) for each in (second, first))
            reason = f"{reason} {self._place(one.lines[a])}; texts at {places}"
            yield self._problem("leakage between splits", other.lines[b], reason, warning=True)


def _add_texts(table: _Table, located: Located, contents: Iterable[str], numbers: Any = 0) -> Hashes:
    """Append documents or queries; return hashes of their ids and texts together, without titles."""
    texts = [arrays.normalise(text) for text in contents]
    filled = np.array([bool(text) for text in texts])
    own = arrays.hash_texts(f"{item[0]} {arrays.normalise(item.text)}" for _, item in located)
    text, folded = (np.where(filled, arrays.hash_texts(forms), np.uint64(0)) for forms in (texts, map(_fold, texts)))
    ids = arrays.hash_texts(item[0] for _, item in located)
    table.add(located, id=ids, text=text, folded=folded, own=own, number=numbers)
    return own


def _joined(tables: Iterable[_Table], columns: np.dtype[Any] = _TEXTS) -> Rows:
    return np.concatenate([np.empty(0, columns), *(table.rows for table in tables)])


def _repeats(values: Hashes) -> Iterator[tuple[int, int]]:
    """Yield the positions of the first and of each later occurrence of repeated values, ordered by the later one."""
    _, position, number = np.unique(values, return_index=True, return_inverse=True)
    first = position[number]
    again = np.flatnonzero(first != np.arange(len(values)))
    return zip(first[again].tolist(), again.tolist(), strict=True)


def _matches(first: Hashes, second: Hashes, lines: Hashes) -> Iterator[tuple[int, int]]:
    """Return the positions of equal values: the first in `first`, and each in `second`, in the order of its lines."""
    values, position = np.unique(first, return_index=True)
    shared = np.flatnonzero(np.isin(second, values))
    shared = shared[np.argsort(lines[shared], stable=True)]
    found = position[np.searchsorted(values, second[shared])]
    return zip(found.tolist(), shared.tolist(), strict=True)


def _nothing_to_judge_by(part: source_files.Part, reason: str) -> Problem:
    return Problem("nothing to judge by", part.name, 0, f"split {part.split}: {reason}", warning=True)


def _opened(part: source_files.Part) -> Iterator[tuple[int, source_files.Record | errors.DataError]]:
    try:
        yield from part.read()
    except errors.DataError as error:
        yield 0, error
