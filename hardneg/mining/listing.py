"""Ranked lists of queries: searched by a model, with positives appended, or with an answer's document as positive."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.answer_matching import PassageAnswers
from hardneg.formats.corpus import Corpus
from hardneg.formats.runs import QueryLists
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.records.types import Encoded, Hits
from hardneg.registry.protocols import Searcher
from hardneg.runtime.progress import Seconds

_LISTS, _QUERIES = 1024, 256

Listed = tuple[NDArray[np.int64], NDArray[np.float32]]
"""A query's documents, rows of the corpus int64 [n], best first, with their scores float32 [n]."""


def searched(
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


def listed(hits: Hits) -> Iterator[Listed]:
    """Return the hits of each query without pads."""
    for rows, scores in zip(hits.rows, hits.scores, strict=True):
        yield rows[rows >= 0], scores[rows >= 0]


def without(hits: Hits, excluded: Sequence[Sequence[str]], corpus: Corpus, depth: int) -> Hits:
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
        for (rows, scores), (others, theirs) in zip(listed(some), listed(own), strict=True):
            lacking = ~np.isin(others, rows)
            yield np.concatenate([rows, others[lacking]]), np.concatenate([scores, theirs[lacking]])


def labelled(
    listed: Iterator[QueryLists], known: dict[str, list[str]], answers: PassageAnswers, depth: int, facts: Counter[str]
) -> Iterator[QueryLists]:
    """Gives a query without positives the first of the first run's top that has an answer, before it goes by."""
    while block := list(islice(listed, _QUERIES)):
        unknown = {query_id: next(iter(hits.values())) for query_id, hits in block if query_id not in known}
        tops = [ranked.doc_ids[:depth] for ranked in unknown.values()]
        for query_id, doc_ids, has in zip(unknown, tops, answers.in_lists(list(unknown), tops), strict=True):
            if has.any():
                known[query_id] = [doc_ids[int(has.argmax())]]
                facts["pseudo-positives"] += 1
        yield from block
