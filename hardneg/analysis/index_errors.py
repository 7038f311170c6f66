"""Pairwise errors of queries over an opened index, from document ids."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from hardneg.analysis.pairwise_errors import CUT, PairwiseErrors, by_query, errors_of_positives, known_pairs
from hardneg.analysis.ranks import Pass
from hardneg.indexes.flat import FlatSearcher
from hardneg.indexes.validation import vector_blocks
from hardneg.protocols import DenseSearcher

_BLOCK = 4096

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Relevant:
    """What is known of the corpus's documents.

    positives: ids by query. rows: the row of each id, int64 [n], -1 where the corpus lacks it. aside: the rows that
    are neither positives nor negatives of a query beside these positives, given the query's id and its positives'
    rows; None where there are no such.
    """

    positives: Mapping[str, Sequence[str]]
    rows: Callable[[Sequence[str]], Rows]
    aside: Callable[[str, Rows], Rows] | None = None


def corpus_pass(searcher: DenseSearcher, count: int) -> Pass:
    """Passes over the `count` vectors that an index holds, in whole blocks."""
    if isinstance(searcher, FlatSearcher):
        return partial(vector_blocks, searcher.flat, _BLOCK)
    return partial(_decoded, searcher, count)


def _decoded(searcher: DenseSearcher, count: int) -> Iterator[tuple[int, NDArray[np.float32]]]:
    for start in range(0, count, _BLOCK):
        yield start, searcher.vectors(np.arange(start, min(start + _BLOCK, count)))


def errors_in_index(
    corpus: Pass,
    query_ids: Sequence[str],
    queries: NDArray[np.float32],
    relevant: Relevant,
    cut: int = CUT,
    device: str = "cpu",
) -> PairwiseErrors:
    """Total and top-K errors of queries that have positives; positives that the index lacks are counted and left out.

    Args:
        corpus: starts a pass over the vectors.
        query_ids: those of `queries`, float32 [Q, d].
        relevant: positives, and what is neither positive nor negative.
        cut: K.
        device: where to compute.
    """
    found = [relevant.rows(relevant.positives.get(query_id, ())) for query_id in query_ids]
    there = [rows[rows >= 0] for rows in found]
    lacking = sum(len(rows) for rows in found) - sum(len(rows) for rows in there)
    kept = [place for place, rows in enumerate(there) if len(rows)]
    query_ids = [query_ids[place] for place in kept]
    own = [there[place] for place in kept]
    aside = (
        [relevant.aside(query_id, rows) for query_id, rows in zip(query_ids, own, strict=True)]
        if relevant.aside
        else None
    )
    known = known_pairs(own, aside)
    errors = by_query(query_ids, known, errors_of_positives(corpus, queries[kept], known, device), cut)
    left_out = {"queries without positives": len(found) - len(kept), "positives that the index lacks": lacking}
    return replace(errors, left_out={reason: count for reason, count in left_out.items() if count})
