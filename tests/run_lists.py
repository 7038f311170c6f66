"""Runs for tests: made of lists of documents, and taken apart to be compared whole."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.runs import Run
from hardneg.records import RankedList


def falling(lists: Mapping[str, Sequence[str]]) -> Run:
    """A run of these documents by query, with scores n, n - 1, ..., 1."""
    return {query_id: RankedList(list(ids), np.arange(len(ids), 0, -1, np.float32)) for query_id, ids in lists.items()}


def ranked(scores: Mapping[str, float] | None = None, **by_name: float) -> RankedList:
    """A list of these documents with their scores, in this order."""
    scores = by_name if scores is None else scores
    return RankedList(list(scores), np.array(list(scores.values()), np.float32))


def doc_lists(run: Run) -> list[list[str]]:
    """The documents of each query, in the run's order."""
    return [list(ranked.doc_ids) for ranked in run.values()]


def score_lists(run: Run) -> list[NDArray[np.float32]]:
    """The scores of each query, beside `doc_lists`."""
    return [ranked.scores for ranked in run.values()]
