"""How much of a refresh was there before: what converges while negatives are refreshed."""

from contextlib import suppress

import numpy as np

from hardneg.data.negatives import read_negatives
from hardneg.errors import ArtifactError
from hardneg.training.examples import NegativeLists
from hardneg.training.refresh.folder import Refreshes

_QUERIES = 10_000  # looked at: the first ones, so that the time does not grow with their number


def kept(negatives: NegativeLists, before: NegativeLists) -> float | None:
    """The share of a query's negatives that it had before too: the mean over queries that have some in both.

    None where no query is in both, as with refreshes of different parts of the queries.
    """
    has, had = _first(negatives), _first(before)
    shares = [len({*has[name]} & {*had[name]}) / len(has[name]) for name in has if name in had]
    return sum(shares) / len(shares) if shares else None


def kept_since_before(place: Refreshes, number: int, first: NegativeLists | None) -> float | None:
    """The same for refresh `number` and the one published before it; `first` stands before refresh 0.

    None where one of the two is not there any more.
    """
    with suppress(ArtifactError):
        before = read_negatives(place.negatives(number - 1), whole=True) if number else first
        return None if before is None else kept(read_negatives(place.negatives(number), whole=True), before)
    return None


def _first(lists: NegativeLists) -> dict[str, list[str]]:
    counts = lists.counts
    return {
        query_id: lists.pick(row, np.arange(counts[row]))
        for row, query_id in enumerate(lists.query_ids[:_QUERIES])
        if counts[row]
    }
