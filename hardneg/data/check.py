"""Finds every mistake of a collection in one pass; ids and texts are kept as 64-bit hashes, 80 bytes a document."""

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.data.hash_index import find_equal, hash_texts, normalise
from hardneg.data.lines import one_word
from hardneg.data.parts import Part, Record
from hardneg.data.problems import Problem, unreadable
from hardneg.errors import DataError
from hardneg.progress import Progress, Silent, Task
from hardneg.types import Document, Judgement, Query

_BLOCK = 4096
_LINE_BITS = 48

Located = tuple[int, Record]
"""A record with its place: the part's number and the line in it, in one integer."""


def check(parts: Iterable[Part], progress: Progress | None = None) -> Iterator[Problem]:
    """The problems of a collection's parts, as a stream; those that need the whole collection come last.

    Two ids or texts count as the same where their 64-bit hashes are: among 10 million, one false alarm in 400,000
    collections.

    Args:
        parts: documents first, and queries before the judgements about them.
        progress: shows the records of each part going by.
    """
    checker = _Checker()
    for part in parts:
        with (progress or Silent()).task(Path(part.name).name, None, "records") as task:
            yield from checker.read(part, task)
    yield from checker.finish()


@dataclass
class _Seen:
    """Hashes of ids and of texts (0 for an empty one), and the place of each: uint64."""

    ids: "array[int]" = field(default_factory=lambda: array("Q"))
    texts: "array[int]" = field(default_factory=lambda: array("Q"))
    places: "array[int]" = field(default_factory=lambda: array("Q"))

    def add(self, places: Iterable[int], names: Iterable[str], texts: Sequence[str]) -> None:
        texts = [normalise(text) for text in texts]
        filled = np.array([bool(text) for text in texts])
        self.places.extend(places)
        self.ids.frombytes(hash_texts(names).tobytes())
        self.texts.frombytes(np.where(filled, hash_texts(texts), np.uint64(0)).tobytes())


@dataclass
class _Judged:
    """One split's judgements: hashes of query ids and of pairs, the relevance and the place of each."""

    queries: "array[int]" = field(default_factory=lambda: array("Q"))
    pairs: "array[int]" = field(default_factory=lambda: array("Q"))
    relevance: "array[int]" = field(default_factory=lambda: array("q"))
    places: "array[int]" = field(default_factory=lambda: array("Q"))


class _Checker:
    def __init__(self) -> None:
        self._names: list[str] = []
        self._documents = _Seen()
        self._queries: dict[str | None, _Seen] = {}
        self._judged: dict[str, _Judged] = {}
        self._known: dict[str | None, NDArray[np.uint64]] = {}

    def read(self, part: Part, task: Task) -> Iterator[Problem]:
        number = len(self._names)
        self._names.append(part.name)
        records = _opened(part)
        while block := list(islice(records, _BLOCK)):
            yield from (unreadable(item, part.name, line) for line, item in block if isinstance(item, DataError))
            located = [(number << _LINE_BITS | line, item) for line, item in block if not isinstance(item, DataError)]
            yield from self._take(located, part)
            task.advance(len(block))

    def _take(self, located: list[Located], part: Part) -> Iterator[Problem]:
        documents = [(place, item) for place, item in located if isinstance(item, Document)]
        queries = [(place, item) for place, item in located if isinstance(item, Query)]
        judgements = [(place, item) for place, item in located if isinstance(item, Judgement)]
        if documents:
            texts = [item.contents for _, item in documents]
            self._documents.add((place for place, _ in documents), (item.doc_id for _, item in documents), texts)
        if queries:
            seen = self._queries.setdefault(part.split, _Seen())
            texts = [item.text for _, item in queries]
            seen.add((place for place, _ in queries), (item.query_id for _, item in queries), texts)
        for place, document in documents:
            yield from self._text_problems(place, document)
        for place, query in queries:
            yield from self._text_problems(place, query)
        if judgements:
            yield from self._judgements(judgements, part.split or "")

    def finish(self) -> Iterator[Problem]:
        self._known.clear()
        yield from self._repeated_ids(self._documents, "document")
        for seen in self._queries.values():
            yield from self._repeated_ids(seen, "query")
        yield from self._repeated_texts([self._documents], "document")
        yield from self._repeated_texts(list(self._queries.values()), "query")
        for judged in self._judged.values():
            yield from self._judged_twice(judged)
        for one, other in combinations(self._judged, 2):
            if not (one.startswith(f"{other}.") or other.startswith(f"{one}.")):
                yield from self._in_two_splits(one, other)
        if not self._documents.ids:
            yield Problem("nothing to search", self._names[0], 0, "no document that can be read")
        if not self._judged:
            yield Problem("nothing to judge by", self._names[-1], 0, "no judgement that can be read", warning=True)

    def _problem(self, kind: str, place: int, reason: str, warning: bool = False) -> Problem:
        return Problem(kind, self._names[place >> _LINE_BITS], place & (1 << _LINE_BITS) - 1, reason, warning)

    def _named(self, place: int) -> str:
        return f"{self._names[place >> _LINE_BITS]}:{place & (1 << _LINE_BITS) - 1}"

    def _text_problems(self, place: int, item: Document | Query) -> Iterator[Problem]:
        name, contents = item[0], item.contents if isinstance(item, Document) else item.text
        if not one_word(name):
            yield self._problem("ids that are not one word", place, f"id {name!r} is empty or holds white space")
        if not contents.strip():
            yield self._problem("empty texts", place, f"{name} has no text")
        elif not item.text.strip():
            yield self._problem("titles without text", place, f"{name} has a title, but no text", warning=True)

    def _judgements(self, block: list[tuple[int, Judgement]], split: str) -> Iterator[Problem]:
        queries = hash_texts(item.query_id for _, item in block)
        documents = hash_texts(item.doc_id for _, item in block)
        for i in np.flatnonzero(~_among(self._sorted_queries(split), queries)).tolist():
            reason = f"query {block[i][1].query_id!r} is not among the queries"
            yield self._problem("judgements of unknown queries", block[i][0], reason)
        for i in np.flatnonzero(~_among(self._sorted_documents(), documents)).tolist():
            reason = f"document {block[i][1].doc_id!r} is not in the corpus"
            yield self._problem("judgements of unknown documents", block[i][0], reason)
        judged = self._judged.setdefault(split, _Judged())
        judged.queries.frombytes(np.unique(queries).tobytes())
        judged.pairs.frombytes(hash_texts(f"{item.query_id} {item.doc_id}" for _, item in block).tobytes())
        judged.relevance.extend(item.relevance for _, item in block)
        judged.places.extend(place for place, _ in block)

    def _sorted_documents(self) -> NDArray[np.uint64]:
        if None not in self._known:
            self._known[None] = np.unique(_array(self._documents.ids))
        return self._known[None]

    def _sorted_queries(self, split: str) -> NDArray[np.uint64]:
        if split not in self._known:
            lists = [self._queries[name].ids for name in (split, None) if name in self._queries]
            self._known[split] = np.unique(np.concatenate([np.empty(0, np.uint64), *map(_array, lists)]))
        return self._known[split]

    def _repeated_ids(self, seen: _Seen, what: str) -> Iterator[Problem]:
        for first, again in _repeats(_array(seen.ids)):
            reason = f"the {what} id of {self._named(seen.places[first])} stands here again"
            yield self._problem(f"{what} ids that stand twice", seen.places[again], reason)

    def _repeated_texts(self, lists: Sequence[_Seen], what: str) -> Iterator[Problem]:
        if not lists:
            return
        ids, texts, places = (_joined([getattr(seen, name) for seen in lists]) for name in ("ids", "texts", "places"))
        for first, again in _repeats(texts):
            if texts[again] and ids[first] != ids[again]:
                reason = f"the same text as {self._named(int(places[first]))}, under another id"
                yield self._problem(f"{what} texts under two ids", int(places[again]), reason, warning=True)

    def _judged_twice(self, judged: _Judged) -> Iterator[Problem]:
        for first, again in _repeats(_array(judged.pairs)):
            before, now = judged.relevance[first], judged.relevance[again]
            place, earlier = judged.places[again], self._named(judged.places[first])
            if before == now:
                yield self._problem("judgements that stand twice", place, f"as at {earlier}", warning=True)
            else:
                reason = f"relevance {now}, but {before} at {earlier}"
                yield self._problem("judgements that contradict each other", place, reason)

    def _in_two_splits(self, one: str, other: str) -> Iterator[Problem]:
        shared = np.intersect1d(_array(self._judged[one].queries), _array(self._judged[other].queries))
        for seen in (self._queries[name] for name in (other, None) if name in self._queries):
            for position in np.flatnonzero(_among(shared, _array(seen.ids))).tolist():
                reason = f"this query is judged in {one} and in {other}"
                yield self._problem("queries in two splits", seen.places[position], reason)


def _opened(part: Part) -> Iterator[tuple[int, Record | DataError]]:
    try:
        yield from part.read()
    except DataError as error:
        yield 0, error


def _array(values: "array[int]") -> NDArray[np.uint64]:
    return np.frombuffer(values, np.uint64) if values else np.empty(0, np.uint64)


def _joined(lists: "Sequence[array[int]]") -> NDArray[np.uint64]:
    return _array(lists[0]) if len(lists) == 1 else np.concatenate([_array(values) for values in lists])


def _among(ordered: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.bool_]:
    first, end = find_equal(ordered, wanted)
    return end > first


def _repeats(hashes: NDArray[np.uint64]) -> Iterator[tuple[int, int]]:
    """For each value that was there before: the position of its first, and its own, in the order of its own."""
    order = np.argsort(hashes, kind="stable")
    ordered = hashes[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]
    again = np.flatnonzero(~new)
    starts = np.flatnonzero(new)
    first = starts[np.searchsorted(starts, again, "right") - 1]
    by_position = np.argsort(order[again], kind="stable")
    return zip(order[first][by_position].tolist(), order[again][by_position].tolist(), strict=True)
