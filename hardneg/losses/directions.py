"""Negatives that are no documents of a query's row: other queries, and documents set against a row's positive."""

from typing import Literal

import torch
from torch import Tensor

from hardneg.losses.pairs import safe_scores
from hardneg.records.errors import TrainingError
from hardneg.records.types import ScoreBatch

Direction = Literal["query-document", "query-query", "document-query", "document-document", "positive-positive"]

_PARTS: dict[Direction, tuple[str, ...]] = {
    "query-query": ("query_query",),
    "document-query": ("query_query",),
    "document-document": ("document_document",),
    "positive-positive": ("document_document",),
}


def needed(directions: tuple[Direction, ...]) -> tuple[str, ...]:
    """The parts of a `ScoreBatch` that directions look at.

    `document-query` reads other rows' scores: a batch with `query_query` is one whose rows share their columns.
    """
    return tuple(sorted({part for direction in directions for part in _PARTS.get(direction, ())}))


def side_scores(direction: Direction, batch: ScoreBatch) -> tuple[Tensor, Tensor, Tensor]:
    """What each row is set against in a direction other than `query-document`; each row has one positive.

    `document-query` is valid where the other query's row is, so masks judge s(q', d) by the threshold of q'.

    Returns:
        Scores float [B, n] in float32 or better, 0 where there is nothing; bool [B, n] where there is something, and
        where that is a negative: a positive's own query is none.

    Raises:
        TrainingError: the batch has not what is needed.
    """
    drawn = batch.positive.to(torch.uint8).argmax(1)
    if direction == "document-query":
        there = batch.valid[:, drawn].T
        return safe_scores(batch)[:, drawn].T, there, there & ~torch.eye(len(there), dtype=torch.bool).to(there)
    part = batch.query_query if direction == "query-query" else batch.document_document
    if part is None:
        raise TrainingError(f"infonce: direction {direction}: the batch has no such scores: leave it out")
    rows = part if direction == "query-query" else part[drawn]
    scores = (rows[:, drawn] if direction == "positive-positive" else rows).to(safe_scores(batch).dtype)
    there = scores != -torch.inf
    return scores.masked_fill(~there, 0.0), there, there
