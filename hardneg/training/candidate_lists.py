"""Which documents a batch of queries is scored against, and what they are to each query."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hardneg.data.hash_index import known_to
from hardneg.training.examples import QueryRows

Forced = Literal["none_retrieved", "always", "never"]


@dataclass(frozen=True, slots=True)
class Listed:
    """The documents of B queries, M of each: a list's first, then positives that were added.

    rows: int64 [B, M], rows of the corpus; -1 pads.
    ranks: int64 [B, M], places in the list, counted from 1; added positives follow; 0 where rows is -1.
    positive: bool [B, M], known positives of the query. valid: bool [B, M], neither padding nor a copy of a positive.
    """

    rows: NDArray[np.int64]
    ranks: NDArray[np.int64]
    positive: NDArray[np.bool_]
    valid: NDArray[np.bool_]


def label(lists: NDArray[np.int64], asked: QueryRows, content_hash: NDArray[np.uint64], forced: Forced) -> Listed:
    """Labels lists from all known positives, and adds positives to them.

    Args:
        lists: int64 [B, K], rows of the corpus, best first; -1 pads.
        asked: the queries.
        content_hash: uint64 [N], by row of the corpus.
        forced: `always` adds every known positive that its list lacks, `none_retrieved` only to lists without any.
    """
    added = _added(lists, known_to(lists, asked.known, asked.owner, len(lists)), asked, forced)
    rows = np.concatenate([lists, added], axis=1)
    there = rows >= 0
    positive = known_to(rows, asked.known, asked.owner, len(rows))
    copies = known_to(content_hash[np.maximum(rows, 0)], content_hash[asked.known], asked.owner, len(rows))
    ranks = np.where(there, np.arange(1, rows.shape[1] + 1), 0)
    return Listed(rows, ranks, positive, positive | (there & ~copies))


def _added(
    lists: NDArray[np.int64], positive: NDArray[np.bool_], asked: QueryRows, forced: Forced
) -> NDArray[np.int64]:
    """The positives to add to each list: int64 [B, P], -1 pads."""
    wanted = np.zeros(len(asked.known), bool)
    if forced == "always":
        wanted = ~np.any(lists[asked.owner] == asked.known[:, None], axis=1)
    elif forced == "none_retrieved":
        wanted = ~np.any(positive, axis=1)[asked.owner]
    owner = asked.owner[wanted]
    place = np.arange(len(owner)) - np.searchsorted(owner, owner)
    added = np.full((len(lists), int(place.max(initial=-1)) + 1), -1, np.int64)
    added[owner, place] = asked.known[wanted]
    return added
