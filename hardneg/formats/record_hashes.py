"""What a check keeps of the records it has read: 64-bit hashes of ids and texts, and their locations.

From these: what two splits share, queries by id, and queries by text under another id.
"""

import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.hash_index import find_equal, hash_texts, normalise
from hardneg.formats.problems import Problem
from hardneg.formats.source_files import Part
from hardneg.records.types import Judgement, Query

_LINE_BITS = 48
_BLOCK = 4096

Hashes = NDArray[np.uint64]
Pairs = NDArray[np.int64]
"""Positions in one split and in another, int64 [n, 2]."""


class Locations:
    """The parts that were read, in order; a location is a part's number and a line in it, as one integer."""

    def __init__(self) -> None:
        self.parts: list[Part] = []

    def begin(self, part: Part) -> int:
        """The location of line 0 of a part that is read now."""
        self.parts.append(part)
        return len(self.parts) - 1 << _LINE_BITS

    def split(self, location: int) -> tuple[str, int]:
        """The part's name, and the line."""
        return self.parts[location >> _LINE_BITS].name, location & (1 << _LINE_BITS) - 1

    def part_of(self, location: int) -> Part:
        """The part of a location."""
        return self.parts[location >> _LINE_BITS]

    def named(self, location: int) -> str:
        """`file:line`."""
        name, line = self.split(location)
        return f"{name}:{line}"

    def problem(self, category: str, location: int, reason: str, warning: bool = False) -> Problem:
        """A problem at a location."""
        return Problem(category, *self.split(location), reason, warning)

    def query_ids(self, hashes: Hashes, parts: Iterable[int]) -> dict[int, str]:
        """The query ids that have these hashes, by hash: the parts of these numbers are read again."""
        wanted, names_by_hash = np.unique(hashes), dict[int, str]()
        for number in sorted(parts) if len(wanted) else ():
            names = (item.query_id for _, item in self.parts[number].read() if isinstance(item, Query))
            while block := list(islice(names, _BLOCK)):
                own = hash_texts(block)
                names_by_hash |= {int(own[i]): block[i] for i in np.flatnonzero(among(wanted, own)).tolist()}
        return names_by_hash


@dataclass
class Seen:
    """Hashes of ids, of texts and of folded texts (0 for an empty one), and their locations: uint64."""

    ids: "array[int]" = field(default_factory=lambda: array("Q"))
    texts: "array[int]" = field(default_factory=lambda: array("Q"))
    folded: "array[int]" = field(default_factory=lambda: array("Q"))
    locations: "array[int]" = field(default_factory=lambda: array("Q"))

    def add(self, locations: Iterable[int], names: Iterable[str], texts: Sequence[str]) -> None:
        """Records in the order of their lines; texts count as the same where white space alone differs."""
        texts = [normalise(text) for text in texts]
        filled = np.array([bool(text) for text in texts])
        self.locations.extend(locations)
        self.ids.frombytes(hash_texts(names).tobytes())
        for kept, forms in ((self.texts, texts), (self.folded, [fold(text) for text in texts])):
            kept.frombytes(np.where(filled, hash_texts(forms), np.uint64(0)).tobytes())


@dataclass
class Judged:
    """One split's judgements: hashes of queries and of pairs, relevance and locations."""

    queries: "array[int]" = field(default_factory=lambda: array("Q"))
    firsts: "array[int]" = field(default_factory=lambda: array("Q"))
    pairs: "array[int]" = field(default_factory=lambda: array("Q"))
    relevance: "array[int]" = field(default_factory=lambda: array("q"))
    locations: "array[int]" = field(default_factory=lambda: array("Q"))

    def add(self, locations: Sequence[int], judgements: Sequence[Judgement], queries: Hashes) -> None:
        """A block in the order of its lines, and the hashes of its query ids; of each query the first line is kept."""
        unique, first = np.unique(queries, return_index=True)
        self.queries.frombytes(unique.tobytes())
        self.firsts.extend(locations[i] for i in first.tolist())
        self.pairs.frombytes(hash_texts(f"{item.query_id} {item.doc_id}" for item in judgements).tobytes())
        self.relevance.extend(item.relevance for item in judgements)
        self.locations.extend(locations)

    def first_lines(self) -> tuple[Hashes, Hashes]:
        """The hashes of all query ids, ascending, and the location of the first judgement of each."""
        unique, first = np.unique(as_array(self.queries), return_index=True)
        return unique, as_array(self.firsts)[first]


class Members(NamedTuple):
    """The queries of one split: uint64 [n] each; `lines`: locations of the first judgements, or of the queries."""

    ids: Hashes
    texts: Hashes
    folded: Hashes
    locations: Hashes
    lines: Hashes


def members(own: Seen | None, shared: Seen | None, judged: Judged | None) -> Members:
    """Of a split's own queries and those of all splits, the ones that it judges; without judgements, all of its own."""
    lists = [seen for seen in (own, shared if judged else None) if seen]
    ids, texts, folded, locations = (
        joined([getattr(seen, name) for seen in lists]) for name in ("ids", "texts", "folded", "locations")
    )
    if judged is None:
        return Members(ids, texts, folded, locations, locations)
    named, lines = judged.first_lines()
    kept = among(named, ids)
    lines = lines[np.searchsorted(named, ids[kept])]
    return Members(ids[kept], texts[kept], folded[kept], locations[kept], lines)


def fold(text: str) -> str:
    """A text without differences of case and of compatible characters, such as ﬁ and fi; white space is normalised."""
    return text.lower() if text.isascii() else normalise(unicodedata.normalize("NFKC", text).casefold())


def as_array(values: "array[int]") -> Hashes:
    """The same numbers: uint64 [n]."""
    return np.frombuffer(values, np.uint64) if values else np.empty(0, np.uint64)


def joined(lists: "Sequence[array[int]]") -> Hashes:
    """All numbers of the lists, one list after the other: uint64 [n]."""
    return as_array(lists[0]) if len(lists) == 1 else np.concatenate([np.empty(0, np.uint64), *map(as_array, lists)])


def among(ordered: Hashes, wanted: Hashes) -> NDArray[np.bool_]:
    """Which of `wanted` are among the ascending `ordered`."""
    first, end = find_equal(ordered, wanted)
    return end > first


def repeats(hashes: Hashes) -> Iterator[tuple[int, int]]:
    """For each value that was there before: the position of its first, and its own, in the order of its own."""
    order = np.argsort(hashes, stable=True)
    ordered = hashes[order]
    new = np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(ordered)]
    again = np.flatnonzero(~new)
    starts = np.flatnonzero(new)
    first = starts[np.searchsorted(starts, again, "right") - 1]
    by_position = np.argsort(order[again], stable=True)
    return zip(order[first][by_position].tolist(), order[again][by_position].tolist(), strict=True)


def across_splits(splits: Mapping[str, Members], locations: Locations, parts: Iterable[int]) -> Iterator[Problem]:
    """The problems of each two splits, `dev` and `dev.small` aside, which may share theirs.

    Args:
        splits: the queries by split.
        locations: of all records.
        parts: the numbers of the parts that hold queries; they are read again for the ids in the problems.
    """
    parts = list(parts)
    yield from _other_texts(splits, locations)
    for pair in _pairs(splits):
        yield from _shared(pair, locations, parts)


class _Pair:
    def __init__(self, one: str, first: Members, other: str, second: Members) -> None:
        self.one, self.first, self.other, self.second = one, first, other, second

    def same_ids(self) -> Pairs:
        return _matches(self.first.ids, self.second.ids, self.second.lines)

    def same_texts(self) -> Pairs:
        """Under different ids; a query in both splits is reported by its id."""
        pairs = _matches(self.first.folded, self.second.folded, self.second.lines)
        new = ~among(np.sort(self.first.ids), self.second.ids[pairs[:, 1]])
        new_pairs: Pairs = pairs[new & (self.second.folded[pairs[:, 1]] != 0)]
        return new_pairs


def leaked(splits: Mapping[str, Members]) -> set[int]:
    """The locations of the queries that `across_splits` reports as having another split's text."""
    leaking: set[int] = set()
    for pair in _pairs(splits):
        leaking |= set(pair.second.locations[pair.same_texts()[:, 1]].tolist())
    return leaking


def _pairs(splits: Mapping[str, Members]) -> Iterator[_Pair]:
    for one, other in combinations(splits, 2):
        if not (one.startswith(f"{other}.") or other.startswith(f"{one}.")):
            yield _Pair(one, splits[one], other, splits[other])


def _shared(pair: _Pair, locations: Locations, parts: Iterable[int]) -> Iterator[Problem]:
    first, second = pair.first, pair.second
    ids, texts = pair.same_ids(), pair.same_texts()
    hashes = np.concatenate([first.ids[texts[:, 0]], second.ids[ids[:, 1]], second.ids[texts[:, 1]]])
    names = locations.query_ids(hashes, parts)
    for a, b in ids.tolist():
        there = locations.named(int(first.lines[a]))
        reason = f"query {names[int(second.ids[b])]!r} is judged here, in {pair.other}, and in {pair.one} at {there}"
        yield locations.problem("queries in two splits", int(second.lines[b]), reason)
    for a, b in texts.tolist():
        own, theirs = names[int(second.ids[b])], names[int(first.ids[a])]
        same = "the text" if first.texts[a] == second.texts[b] else "the text, but for case and form,"
        there, read = locations.named(int(first.lines[a])), (int(second.locations[b]), int(first.locations[a]))
        reason = f"query {own!r} of {pair.other} has {same} of query {theirs!r} of {pair.one} at {there}"
        texts_at = " and ".join(locations.named(location) for location in read)
        reason = f"{reason}; texts at {texts_at}"
        yield locations.problem("leakage between splits", int(second.lines[b]), reason, warning=True)


def _other_texts(splits: Mapping[str, Members], locations: Locations) -> Iterator[Problem]:
    """Ids that splits give different texts."""
    if len(splits) < 2:
        return
    ids, texts, own = (
        np.concatenate([getattr(each, name) for each in splits.values()]) for name in ("ids", "texts", "locations")
    )
    owner = np.repeat(np.arange(len(splits)), [len(each.ids) for each in splits.values()])
    for first, again in repeats(ids):
        if owner[first] != owner[again] and texts[first] != texts[again]:
            reason = f"another text than at {locations.named(int(own[first]))}, under the same id"
            yield locations.problem("query ids with two texts", int(own[again]), reason)


def _matches(first: NDArray[np.uint64], second: NDArray[np.uint64], lines: NDArray[np.uint64]) -> Pairs:
    """Positions of equal values: the first one in `first`, and each in `second`, in the order of its lines."""
    values, position = np.unique(first, return_index=True)
    shared = np.flatnonzero(among(values, second))
    shared = shared[np.argsort(lines[shared], stable=True)]
    return np.stack([position[np.searchsorted(values, second[shared])], shared], axis=1)
