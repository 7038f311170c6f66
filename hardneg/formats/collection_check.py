"""Finds every mistake of a collection in one pass; ids and texts are kept as 64-bit hashes, 100 bytes a document."""

import re
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np

from hardneg.formats.excluded import Exclusion
from hardneg.formats.groups import TWICE, two_groups
from hardneg.formats.hash_index import hash_texts, normalise
from hardneg.formats.problems import Contents, Problem, SplitContents, Unplaced, unreadable
from hardneg.formats.record_hashes import (
    Hashes,
    Judged,
    Locations,
    Members,
    Seen,
    across_splits,
    among,
    as_array,
    joined,
    leaked,
    members,
    repeats,
)
from hardneg.formats.source_files import Part, Record, parts_of, split_problem
from hardneg.formats.text_lines import id_problem, one_word
from hardneg.records.errors import DataError
from hardneg.records.types import Collection, Document, Judgement, Membership, Query
from hardneg.runtime.progress import Progress, Silent, Task

_BLOCK = 4096
_HEADS = frozenset({"id", "_id", "docid", "doc_id", "pid", "qid", "query_id", "query-id", "corpus-id"})
_STRANGE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ufffd]")

Located = tuple[int, Record]
"""A record with its location."""


def check(
    parts: Iterable[Part], progress: Progress | None = None, contents: Contents | None = None
) -> Iterator[Problem]:
    """The problems of a collection's parts, as a stream; those that need the whole collection come last.

    Two ids or texts count as the same where their 64-bit hashes are: among 10 million, one false alarm in 400,000
    collections.

    Args:
        parts: documents first, and queries before the judgements about them.
        progress: shows the records of each part going by.
        contents: filled with what was read; complete when the stream has ended.
    """
    checker = _Checker(Contents() if contents is None else contents)
    for part in parts:
        with (progress or Silent()).task(Path(part.name).name, None, "records") as task:
            yield from checker.read(part, task)
    yield from checker.finish()


class _Checker:
    def __init__(self, contents: Contents) -> None:
        self._contents = contents
        self._locations = Locations()
        self._asking: set[int] = set()
        self._documents, self._own = Seen(), array("Q")
        self._queries: dict[str | None, Seen] = {}
        self._judged: dict[str, Judged] = {}
        self._known: dict[str | None, Hashes] = {}
        self._groups: dict[tuple[int, str], str] = {}

    def read(self, part: Part, task: Task) -> Iterator[Problem]:
        base, count, empty = self._locations.begin(part), 0, True
        if part.split is not None and part.split not in self._contents.splits:
            self._contents.splits[part.split] = SplitContents()
            if reason := split_problem(part.split):
                yield Problem("names of splits", part.name, 0, reason)
        self._contents.parts.append(part.name)
        records = _opened(part)
        while block := list(islice(records, _BLOCK)):
            yield from (unreadable(item, part.name, line) for line, item in block if isinstance(item, DataError))
            located = [(base | line, item) for line, item in block if not isinstance(item, DataError)]
            yield from self._take(located, part)
            count += len(located)
            empty = False
            task.advance(len(block))
        if part.split is None and empty:
            yield Problem("files that hold nothing", part.name, 0, "there is nothing in it", warning=True)
        if part.split is not None and not count:
            yield _nothing_to_judge_by(part, "nothing in it that can be read")

    def _take(self, located: list[Located], part: Part) -> Iterator[Problem]:
        documents = [(location, item) for location, item in located if isinstance(item, Document)]
        queries = [(location, item) for location, item in located if isinstance(item, Query)]
        judgements = [(location, item) for location, item in located if isinstance(item, Judgement)]
        if documents:
            texts = [item.contents for _, item in documents]
            self._documents.add((location for location, _ in documents), (item.doc_id for _, item in documents), texts)
            self._own.frombytes(_named_texts(item for _, item in documents).tobytes())
        if queries:
            self._asking.add(len(self._locations.parts) - 1)
            seen = self._queries.setdefault(part.split, Seen())
            texts = [item.text for _, item in queries]
            seen.add((location for location, _ in queries), (item.query_id for _, item in queries), texts)
            own = among(self._every_own, _named_texts(item for _, item in queries))
            for location, item in (queries[i] for i in np.flatnonzero(own).tolist()):
                reason = f"{item.query_id!r} is a document too, of this text; `dataset.exclude_own=true` excludes it"
                yield self._locations.problem("queries that are documents", location, reason, warning=True)
        for location, document in documents:
            yield from self._text_problems(location, document)
        for location, query in queries:
            yield from self._text_problems(location, query)
        if judgements:
            yield from self._judgements(judgements, part.split or "")
        yield from self._exclusions([(location, item) for location, item in located if isinstance(item, Exclusion)])
        yield from self._memberships([(location, item) for location, item in located if isinstance(item, Membership)])

    def finish(self) -> Iterator[Problem]:
        self._known.clear()
        known, every = self._queries, self._queries.get(None)
        splits = {split: members(known.get(split), every, self._judged.get(split)) for split in self._contents.splits}
        self._count(splits)
        yield from self._repeated_ids(self._documents, "document")
        for seen in self._queries.values():
            yield from self._repeated_ids(seen, "query")
        yield from across_splits(splits, self._locations, self._asking)
        yield from self._repeated_texts([self._documents], "document", set())
        yield from self._repeated_texts(list(self._queries.values()), "query", leaked(splits))
        for judged in self._judged.values():
            yield from self._judged_twice(judged)
        yield from self._nothing()

    def _count(self, splits: dict[str, Members]) -> None:
        self._contents.documents = len(self._documents.ids)
        for split, own in splits.items():
            counts = self._contents.splits[split]
            counts.queries = len(own.ids)
            relevance = np.array(self._judged[split].relevance if split in self._judged else [], np.int64)
            counts.relevant, counts.zero = int((relevance > 0).sum()), int((relevance == 0).sum())
            counts.negative = len(relevance) - counts.relevant - counts.zero
        used = np.unique(np.concatenate([np.empty(0, np.uint64), *(own.locations for own in splits.values())]))
        lists = [as_array(seen.locations) for seen in self._queries.values()]
        self._contents.unjudged = sum(len(locations) - int(among(used, locations).sum()) for locations in lists)

    def _nothing(self) -> Iterator[Problem]:
        if not self._documents.ids:
            yield Problem("nothing to search", self._locations.parts[0].name, 0, "no document that can be read")
        for split, counts in self._contents.splits.items():
            if split in self._judged and not counts.relevant:
                part = self._locations.part_of(self._judged[split].locations[0])
                yield _nothing_to_judge_by(part, f"none of the {counts.zero + counts.negative} is above zero")
        if not self._judged and not self._contents.splits:
            yield Problem("nothing to judge by", self._locations.parts[-1].name, 0, "no split", warning=True)

    def _text_problems(self, location: int, item: Document | Query) -> Iterator[Problem]:
        name, contents = item[0], item.contents if isinstance(item, Document) else item.text
        if not one_word(name):
            yield self._locations.problem("ids that are not one word", location, id_problem(name))
        elif not name.isprintable():
            yield self._locations.problem("ids with invisible characters", location, f"id {name!r:.80}", warning=True)
        if name.lower() in _HEADS and self._locations.split(location)[1] == 1:
            yield self._locations.problem("heads read as records", location, f"{name!r} is read as an id", warning=True)
        if not contents.strip():
            yield self._locations.problem("empty texts", location, f"{name} has no text")
        elif not item.text.strip():
            yield self._locations.problem("titles without text", location, f"{name} has a title alone", warning=True)
        strange = not contents.isprintable() or "\ufffd" in contents
        if strange and (match := _STRANGE.search(contents)):
            reason = f"{name} holds U+{ord(match[0]):04X}, at character {match.start() + 1}"
            yield self._locations.problem("control and replacement characters in texts", location, reason, warning=True)

    def _judgements(self, block: list[tuple[int, Judgement]], split: str) -> Iterator[Problem]:
        queries = hash_texts(item.query_id for _, item in block)
        documents = hash_texts(item.doc_id for _, item in block)
        if split not in self._known:
            self._known[split] = np.unique(joined([self._queries[n].ids for n in (split, None) if n in self._queries]))
        for i in np.flatnonzero(~among(self._known[split], queries)).tolist():
            reason = f"query {block[i][1].query_id!r} is not among the queries"
            yield self._locations.problem("judgements of unknown queries", block[i][0], reason)
        if None not in self._known:
            self._known[None] = np.unique(as_array(self._documents.ids))
        for i in np.flatnonzero(~among(self._known[None], documents)).tolist():
            reason = f"document {block[i][1].doc_id!r} is not in the corpus"
            yield self._locations.problem("judgements of unknown documents", block[i][0], reason)
        judged = self._judged.setdefault(split, Judged())
        judged.add([location for location, _ in block], [item for _, item in block], queries)

    def _exclusions(self, block: list[tuple[int, Exclusion]]) -> Iterator[Problem]:
        """All other parts have been read."""
        if not block:
            return
        queries, documents = (hash_texts(item[at] for _, item in block) for at in range(2))
        known = among(self._every["queries"], queries) & among(self._every["documents"], documents)
        relevant = among(self._every["relevant"], hash_texts(f"{query_id} {doc_id}" for _, (query_id, doc_id) in block))
        for location, item in (block[i] for i in np.flatnonzero(~known).tolist()):
            reason = f"query {item.query_id!r} or document {item.doc_id!r} is unknown"
            yield self._locations.problem("exclusions that exclude nothing", location, reason, warning=True)
        for location, item in (block[i] for i in np.flatnonzero(relevant).tolist()):
            reason = f"document {item.doc_id!r} is relevant to query {item.query_id!r}: leave one of the two out"
            yield self._locations.problem("excluded documents that are relevant", location, reason)

    def _memberships(self, block: list[tuple[int, Membership]]) -> Iterator[Problem]:
        """All documents, queries and judgements have been read."""
        if not block:
            return
        ids, file = hash_texts(item.member_id for _, item in block), len(self._locations.parts) - 1
        known = among(self._every["queries"], ids) | among(self._every["documents"], ids)
        for (location, item), there in zip(block, known.tolist(), strict=True):
            group = self._groups.setdefault((file, item.member_id), item.group)
            if group != item.group:
                yield self._locations.problem(TWICE, location, two_groups(item.member_id, group, item.group))
            if not there:
                reason = f"{item.member_id!r} is neither a document nor a query"
                yield self._locations.problem("groups of nothing", location, reason, warning=True)

    @cached_property
    def _every_own(self) -> Hashes:
        """Hashes of each document's id and text together, ascending. All documents have been read."""
        return np.unique(as_array(self._own))

    @cached_property
    def _every(self) -> dict[str, Hashes]:
        """Hashes of all ids of queries and of documents, and of all relevant pairs, ascending."""
        pairs = [as_array(each.pairs)[np.array(each.relevance) > 0] for each in self._judged.values()]
        queries = [as_array(seen.ids) for seen in self._queries.values()]
        parts = {"queries": queries, "documents": [as_array(self._documents.ids)], "relevant": pairs}
        return {name: np.unique(np.concatenate([np.empty(0, np.uint64), *each])) for name, each in parts.items()}

    def _repeated_ids(self, seen: Seen, what: str) -> Iterator[Problem]:
        for first, again in repeats(as_array(seen.ids)):
            reason = f"the {what} id of {self._locations.named(seen.locations[first])} stands here again"
            yield self._locations.problem(f"{what} ids that stand twice", seen.locations[again], reason)

    def _repeated_texts(self, lists: Sequence[Seen], what: str, reported: set[int]) -> Iterator[Problem]:
        ids, texts, folded, locations = (
            joined([getattr(seen, name) for seen in lists]) for name in ("ids", "texts", "folded", "locations")
        )
        same = f"{what} texts under two ids", "the same text as {}, under another id"
        alike = f"{what} texts that differ in case alone", "the text of {}, but for case and form, under another id"
        reported = set(reported)
        for (category, reason), values in ((same, texts), (alike, folded)):
            for first, again in repeats(values):
                location = int(locations[again])
                if values[again] and ids[first] != ids[again] and location not in reported:
                    reported.add(location)
                    there = self._locations.named(int(locations[first]))
                    yield self._locations.problem(category, location, reason.format(there), warning=True)

    def _judged_twice(self, judged: Judged) -> Iterator[Problem]:
        for first, again in repeats(as_array(judged.pairs)):
            before, now = judged.relevance[first], judged.relevance[again]
            location, earlier = judged.locations[again], self._locations.named(judged.locations[first])
            if before == now:
                yield self._locations.problem("judgements that stand twice", location, f"as at {earlier}", warning=True)
            else:
                reason = f"relevance {now}, but {before} at {earlier}"
                yield self._locations.problem("judgements that contradict each other", location, reason)


def _named_texts(items: Iterable[Document | Query]) -> Hashes:
    return hash_texts(f"{item[0]} {normalise(item.text)}" for item in items)


def _nothing_to_judge_by(part: Part, reason: str) -> Problem:
    return Problem("nothing to judge by", part.name, 0, f"split {part.split}: {reason}", warning=True)


def _opened(part: Part) -> Iterator[tuple[int, Record | DataError]]:
    try:
        yield from part.read()
    except DataError as error:
        yield 0, error


@contextmanager
def placed(collection: Collection) -> Iterator[None]:
    """Adds the location to an `Unplaced` error: the collection is read again, as `hardneg data check` reads it.

    Raises:
        DataError: with file and line, where the second reading meets a problem of that category; else the error itself.
    """
    try:
        yield
    except Unplaced as error:
        problem = next((each for each in check(parts_of(collection)) if each.category == error.category), None)
        if problem is None:
            raise
        raise DataError(str(problem) if problem.reason == str(error) else f"{problem}; {error}") from error
