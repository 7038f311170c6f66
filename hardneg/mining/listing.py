"""Ranked lists of queries to mine from: searched by a model, with more positives, or controls of an experiment."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import Corpus
from hardneg.formats.form_names import OWN
from hardneg.formats.forms import TextLookup, read_form
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.formats.runs import EMPTY, QueryLists, lists_side_by_side
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.mining.miners.ranks import shuffled
from hardneg.protocols import Searcher
from hardneg.records import NEGATIVES, DataError, Encoded, Hits, RankedList
from hardneg.runtime import Seconds, derive_seed, generator

_LISTS, _BLOCK = 1024, 1024  # queries at a time
LABEL = "file"
"""The label of the lists of a file, beside those of runs."""

Listed = tuple[NDArray[np.int64], NDArray[np.float32]]
"""A query's documents, rows of the corpus int64 [n], best first, with their scores float32 [n]."""


def search_queries(
    encode: Callable[[Sequence[str]], Encoded],
    texts: Sequence[str],
    searcher: Searcher,
    depth: int,
    at_once: int,
    seconds: Seconds,
) -> Iterator[tuple[slice, Encoded, Hits]]:
    """Search `at_once` queries at a time; yield their slice, the encoded queries, and the best documents of each.

    seconds: of encoding the `queries`, and of the `search`.
    """
    for start in range(0, len(texts), at_once):
        window = slice(start, start + at_once)
        with seconds.of("queries"):
            wanted = encode(texts[window])
        with seconds.of("search"):
            hits = searcher.search(wanted, depth)
        yield window, wanted, hits


def as_lists(hits: Hits) -> Iterator[Listed]:
    """Return the hits of each query without pads."""
    for rows, scores in zip(hits.rows, hits.scores, strict=True):
        yield rows[rows >= 0], scores[rows >= 0]


def exclude(hits: Hits, excluded: Sequence[Sequence[str]], corpus: Corpus, depth: int) -> Hits:
    """Return the best `depth` hits of each query that are none of its excluded documents."""
    kept = Hits(hits.rows[:, :depth].copy(), hits.scores[:, :depth].copy())
    for query, (doc_ids, out) in enumerate(zip(excluded, corpus.list_rows(excluded), strict=True)):
        if doc_ids:
            stays = np.flatnonzero(~np.isin(hits.rows[query], out))[:depth]
            kept.rows[query], kept.scores[query] = -1, -np.inf
            kept.rows[query, : len(stays)] = hits.rows[query, stays]
            kept.scores[query, : len(stays)] = hits.scores[query, stays]
    return kept


def with_positives(
    hits: Hits, searcher: Searcher, queries: Sequence[str] | Encoded, known: Sequence[Sequence[str]], corpus: Corpus
) -> Iterator[Listed]:
    """Append to the hits of each query its known positives that they lack, with their own scores.

    Raises:
        UsageError: the searcher has no vectors to score them by.
    """
    for start in range(0, len(known), _LISTS):
        part = slice(start, start + _LISTS)
        wanted = corpus.list_rows(known[part])
        own = rank_candidates(searcher, queries[part], wanted, max(1, wanted.shape[1]))
        some = Hits(hits.rows[part], hits.scores[part])
        for (rows, scores), (others, theirs) in zip(as_lists(some), as_lists(own), strict=True):
            lacking = ~np.isin(others, rows)
            yield np.concatenate([rows, others[lacking]]), np.concatenate([scores, theirs[lacking]])


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
            known, alone = set(positives.get(donor, ())), donors[row] == row
            lists = {label: ranked.without(ranked.doc_ids if alone else known) for label, ranked in hits.items()}
            yield query_id, lists
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
            lists = {}
            for label, ranked in hits.items():
                kept = ranked.without(frozenset(ranked.doc_ids) - known)
                lacking = [doc_id for doc_id in hidden if doc_id not in ranked.doc_ids]
                last = ranked.scores[-1] if len(ranked.scores) else np.nan
                scores = np.concatenate([kept.scores, np.full(len(lacking), last, np.float32)])
                lists[label] = RankedList([*kept.doc_ids, *lacking], scores)
            yield query_id, lists
        else:
            yield query_id, {label: ranked.without(hidden) for label, ranked in hits.items()}


class ListsOfFile:
    """The negatives of each query in a file of any form; texts are looked up in the collection.

    A file of texts is held in memory, as ids. `counts`: what was not found, by reason, and `queries not in the file`.

    Raises:
        UsageError: the form is unknown, or the file's ending is not one of its own.
        DataError: a row is not of the form, or no query of the file is of the split.
    """

    def __init__(self, path: Path, form: str, collection: StoredCollection, split: str) -> None:
        self.path, self.corpus = path, collection.corpus
        queries = collection.queries(split)
        lookup = TextLookup(queries, collection.corpus)
        if form == OWN:
            self.negatives = read_negatives(path)
        else:
            with TemporaryDirectory() as folder:
                write_negatives(Path(folder) / NEGATIVES, read_form(form, path, lookup))
                self.negatives = read_negatives(Path(folder) / NEGATIVES, whole=True)
        self.rows = {query_id: row for row, query_id in enumerate(self.negatives.query_ids)}
        known = self.rows.keys() & set(queries.query_ids)
        if not known:
            raise DataError(f"{path}: no query is of split {split}: name its split, or its collection")
        absent = {"queries not in the split": len(self.rows), "queries not in the file": len(queries)}
        counts = {reason: count - len(known) for reason, count in absent.items()} | lookup.counts
        self.counts = Counter({reason: count for reason, count in counts.items() if count})

    def listed(self, query_ids: Sequence[str], runs: dict[str, Path]) -> Iterator[QueryLists]:
        """Each query with its list in the file, whose scores may be nan, and after it those in runs.

        Raises:
            DataError: a document is not in the corpus, or what `lists_side_by_side` raises it for.
        """
        for query_id, lists in lists_side_by_side(runs, query_ids):
            ranked = EMPTY
            if (row := self.rows.get(query_id)) is not None:
                item, what = self.negatives[row], f"{self.path}: negative of query {query_id}:"
                self.corpus.known_rows(item.negatives, what, "name the file's own collection")
                ranked = RankedList(item.negatives, np.asarray(item.scores, np.float32))
            yield query_id, {LABEL: ranked, **lists}
