"""What two splits share: queries by id, and queries by text under another id."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from hardneg.data.problems import Problem
from hardneg.data.seen import Members, Places, among, repeats

Pairs = NDArray[np.int64]
"""Positions in one split and in another, int64 [n, 2]."""


def across_splits(splits: Mapping[str, Members], places: Places, parts: Iterable[int]) -> Iterator[Problem]:
    """The problems of each two splits, `dev` and `dev.small` aside, which may share theirs.

    Args:
        splits: the queries by split.
        places: of all records.
        parts: the numbers of the parts that hold queries; they are read again for the ids of what is told.
    """
    parts = list(parts)
    yield from _other_texts(splits, places)
    for one, other in combinations(splits, 2):
        if not (one.startswith(f"{other}.") or other.startswith(f"{one}.")):
            yield from _shared(_Pair(one, splits[one], other, splits[other]), places, parts)


class _Pair:
    def __init__(self, one: str, first: Members, other: str, second: Members) -> None:
        self.one, self.first, self.other, self.second = one, first, other, second

    def same_ids(self) -> Pairs:
        return _matches(self.first.ids, self.second.ids, self.second.lines)

    def same_texts(self) -> Pairs:
        """Under different ids; a query that is in both splits is told by its id."""
        pairs = _matches(self.first.folded, self.second.folded, self.second.lines)
        new = ~among(np.sort(self.first.ids), self.second.ids[pairs[:, 1]])
        found: Pairs = pairs[new & (self.second.folded[pairs[:, 1]] != 0)]
        return found


def leaked(splits: Mapping[str, Members]) -> set[int]:
    """The places of the queries that `across_splits` tells to have another split's text."""
    found: set[int] = set()
    for one, other in combinations(splits, 2):
        if not (one.startswith(f"{other}.") or other.startswith(f"{one}.")):
            pairs = _Pair(one, splits[one], other, splits[other]).same_texts()
            found |= set(splits[other].places[pairs[:, 1]].tolist())
    return found


def _shared(pair: _Pair, places: Places, parts: Iterable[int]) -> Iterator[Problem]:
    first, second = pair.first, pair.second
    ids, texts = pair.same_ids(), pair.same_texts()
    names = places.query_ids(
        np.concatenate([first.ids[texts[:, 0]], second.ids[ids[:, 1]], second.ids[texts[:, 1]]]), parts
    )
    for a, b in ids.tolist():
        there = places.named(int(first.lines[a]))
        reason = f"query {names[int(second.ids[b])]!r} is judged here, in {pair.other}, and in {pair.one} at {there}"
        yield places.problem("queries in two splits", int(second.lines[b]), reason)
    for a, b in texts.tolist():
        own, theirs = names[int(second.ids[b])], names[int(first.ids[a])]
        same = "the text" if first.texts[a] == second.texts[b] else "the text, but for case and form,"
        there, read = places.named(int(first.lines[a])), (int(second.places[b]), int(first.places[a]))
        reason = f"query {own!r} of {pair.other} has {same} of query {theirs!r} of {pair.one} at {there}"
        texts_at = " and ".join(places.named(place) for place in read)
        yield places.problem(
            "leakage between splits", int(second.lines[b]), f"{reason}; texts at {texts_at}", warning=True
        )


def _other_texts(splits: Mapping[str, Members], places: Places) -> Iterator[Problem]:
    """Ids that splits give different texts."""
    if len(splits) < 2:
        return
    ids, texts, own = (
        np.concatenate([getattr(each, name) for each in splits.values()]) for name in ("ids", "texts", "places")
    )
    owner = np.repeat(np.arange(len(splits)), [len(each.ids) for each in splits.values()])
    for first, again in repeats(ids):
        if owner[first] != owner[again] and texts[first] != texts[again]:
            reason = f"another text than at {places.named(int(own[first]))}, under the same id"
            yield places.problem("query ids with two texts", int(own[again]), reason)


def _matches(first: NDArray[np.uint64], second: NDArray[np.uint64], lines: NDArray[np.uint64]) -> Pairs:
    """Positions of equal values: the first one in `first`, and each in `second`, in the order of its lines."""
    values, position = np.unique(first, return_index=True)
    shared = np.flatnonzero(among(values, second))
    shared = shared[np.argsort(lines[shared], kind="stable")]
    return np.stack([position[np.searchsorted(values, second[shared])], shared], axis=1)
