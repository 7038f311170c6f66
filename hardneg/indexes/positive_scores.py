"""Scores of the positives beside mined negatives: those of the run, or the model's where the run lacks them."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.collection import StoredCollection
from hardneg.formats.queries import Queries
from hardneg.indexes.kernels.candidate_scoring import rank_candidates
from hardneg.records.types import Encoded, Negatives, RankedList
from hardneg.registry.protocols import Searcher

_QUERIES = 4096

PositiveScores = dict[str, NDArray[np.float32]]


def scores_in_run(negatives: Iterable[Negatives], entries: Iterable[tuple[str, RankedList]]) -> PositiveScores:
    """float32 [positives] for each query of `negatives`: its positives' scores in the run, nan where it lacks them."""
    positives = {item.query_id: list(item.positives) for item in negatives}
    scores = {query_id: np.full(len(doc_ids), np.nan, np.float32) for query_id, doc_ids in positives.items()}
    for query_id, ranked in entries:
        if query_id in positives:
            known = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
            scores[query_id] = np.array([known.get(doc_id, np.nan) for doc_id in positives[query_id]], np.float32)
    return scores


def fill_from_model(
    scores: PositiveScores,
    negatives: Iterable[Negatives],
    queries: Queries,
    collection: StoredCollection,
    encode: Callable[[Sequence[str]], Encoded],
    searcher: Searcher,
) -> None:
    """Replace nan in `scores` by the model's own scores, as a search computes them.

    encode: encodes queries. searcher: of the model's index, by document. A document that shares no term
    with its query has no score.
    """
    texts = dict(zip(queries.query_ids, queries.texts, strict=True))
    positives = {i.query_id: list(i.positives) for i in negatives if np.isnan(scores[i.query_id]).any()}
    query_ids = list(positives)
    for start in range(0, len(query_ids), _QUERIES):
        block = query_ids[start : start + _QUERIES]
        rows = [collection.corpus.rows(positives[query_id]) for query_id in block]
        candidates = np.full((len(block), max(map(len, rows))), -1, np.int64)
        for line, own in zip(candidates, rows, strict=True):
            line[: len(own)] = own
        hits = rank_candidates(
            searcher, encode([texts[query_id] for query_id in block]), candidates, len(candidates[0])
        )
        for query_id, own, hit_rows, values in zip(block, rows, hits.rows, hits.scores, strict=True):
            known = dict(zip(hit_rows.tolist(), values.tolist(), strict=True))
            missing = np.isnan(scores[query_id])
            scores[query_id][missing] = [known.get(row, np.nan) for row in own[missing].tolist()]
