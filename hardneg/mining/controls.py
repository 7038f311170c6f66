"""Controls of an experiment on mined lists: lists and positives of other queries, and planted false negatives."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from hardneg.formats.runs import QueryLists
from hardneg.mining.miners.random import shuffled
from hardneg.records.types import RankedList
from hardneg.runtime.seeding import derive_seed, generator

_BLOCK = 1024  # queries


def permuted(listed: Iterable[QueryLists], positives: Mapping[str, Sequence[str]], seed: int) -> Iterator[QueryLists]:
    """Each query with the lists of another one, without the documents that are relevant to that one.

    What one document is worth as a negative of any query stays the same, what it is worth to its own query goes.
    Queries are permuted in blocks of 1,024; the only query of a block has no lists.
    """
    waiting, number = iter(listed), 0
    while block := list(islice(waiting, _BLOCK)):
        order = generator(seed, "permuted", str(number)).permutation(len(block)).tolist()
        donors = dict(zip(order, [*order[1:], order[0]], strict=True))
        for row, (query_id, _) in enumerate(block):
            donor, hits = block[donors[row]]
            known = (
                set(positives.get(donor, ()))
                if donors[row] != row
                else set[str]().union(*(ranked.doc_ids for ranked in hits.values()))
            )
            yield query_id, {label: ranked.without(known) for label, ranked in hits.items()}
        number += 1


def drawn_positives(
    query_ids: Sequence[str], positives: Mapping[str, Sequence[str]], count: int, seed: int
) -> Iterator[QueryLists]:
    """Each query with a list of `count` positives of the other queries, drawn at random, without scores (nan).

    As negatives they are what more queries in a batch would bring. Where there are fewer, the list has all.
    """
    pool = list(dict.fromkeys(doc_id for query_id in query_ids for doc_id in positives.get(query_id, ())))
    for query_id in query_ids:
        own = set(positives.get(query_id, ()))
        order = shuffled(pool, count + len(own), generator(seed, "drawn positives", query_id))
        drawn = list(islice((doc_id for doc_id in order if doc_id not in own), count))
        yield query_id, {"positives": RankedList(drawn, np.full(len(drawn), np.nan, np.float32))}


def planted(
    listed: Iterable[QueryLists],
    withheld: Mapping[str, Sequence[str]],
    positives: Mapping[str, Sequence[str]],
    share: float,
    seed: int,
) -> Iterator[QueryLists]:
    """Lists of withheld positives alone for a share of the queries that have some, lists without them for the others.

    So of the negatives that are drawn, this share is false. Known positives stay in the lists, to be compared with. A
    withheld positive that a list lacks gets the score of its last document. A larger share plants the same and more.
    """
    for query_id, hits in listed:
        hidden = dict.fromkeys(withheld.get(query_id, ()))
        if not hidden:
            yield query_id, hits
        elif derive_seed(seed, "planted", query_id) < share * 2**64:
            known = hidden.keys() | set(positives.get(query_id, ()))
            yield query_id, {label: _with(ranked, known, hidden) for label, ranked in hits.items()}
        else:
            yield query_id, {label: ranked.without(hidden) for label, ranked in hits.items()}


def _with(ranked: RankedList, known: Container[str], hidden: Iterable[str]) -> RankedList:
    """The known documents of a list, and at its end those hidden ones that it lacks."""
    kept = ranked.without(frozenset(doc_id for doc_id in ranked.doc_ids if doc_id not in known))
    there = frozenset(kept.doc_ids)
    lacking = [doc_id for doc_id in hidden if doc_id not in there]
    last = ranked.scores[-1] if len(ranked.scores) else np.nan
    scores = np.concatenate([kept.scores, np.full(len(lacking), last, np.float32)])
    return RankedList([*kept.doc_ids, *lacking], scores)
