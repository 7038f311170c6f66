"""Tasks that list the documents to rank for each query: as rows of the corpus, and ranked by an index of texts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hardneg.indexes.kernels.checks import in_order
from hardneg.records.errors import DataError
from hardneg.records.types import Hits

if TYPE_CHECKING:
    from hardneg.registry.protocols import Searcher

_HELD = 1 << 24  # scores at a time


def listed_rows(
    query_ids: Sequence[str], top_ranked: Mapping[str, Sequence[str]], rows: Mapping[str, int]
) -> NDArray[np.int64]:
    """The documents of each query as rows, int64 [Q, C], padded with -1; a query without a list has none.

    Raises:
        DataError: the corpus lacks one.
    """
    lists = [list(dict.fromkeys(top_ranked.get(query_id) or ())) for query_id in query_ids]
    if lacking := next((doc_id for listed in lists for doc_id in listed if doc_id not in rows), None):
        raise DataError(f"the task lists document {lacking!r}, and its corpus has none of this id")
    candidates = np.full((len(lists), max(map(len, lists), default=0)), -1, np.int64)
    for row, listed in enumerate(lists):
        candidates[row, : len(listed)] = [rows[doc_id] for doc_id in listed]
    return candidates


def rank_by_texts(searcher: "Searcher", texts: Sequence[str], candidates: NDArray[np.int64], documents: int) -> Hits:
    """All listed documents by their scores in an index of texts; 0 where one shares no word with its query.

    Args:
        searcher: of an index of texts, whose scores are above 0.
        texts: Q queries.
        given: int64 [Q, C], as `listed_rows` gives them.
        documents: how many the index has.
    """
    scores = np.full(candidates.shape, -np.inf, np.float32)
    step = max(1, _HELD // max(1, documents))
    for start in range(0, len(texts), step):
        hits = searcher.search(list(texts[start : start + step]), documents)
        for query, (rows, values) in enumerate(zip(hits.rows, hits.scores, strict=True), start):
            known = np.zeros(documents + 1, np.float32)  # the last one is that of the padding
            known[rows] = values
            scores[query] = np.where(candidates[query] < 0, -np.inf, known[candidates[query]])
    return in_order(candidates, scores)
