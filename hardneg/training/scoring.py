"""Score batches: from embeddings to the input of a loss."""

from collections.abc import Callable, Set
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.encoders.representation import at_least_float32
from hardneg.encoders.towers import placed
from hardneg.formats.hash_index import known_to
from hardneg.records.types import ScoreBatch
from hardneg.training.examples import SampledBatch


class ContentHashes(Protocol):
    """The hash of each document's contents, by row: an array, or several as one."""

    def __getitem__(self, rows: NDArray[np.int64], /) -> NDArray[np.uint64]: ...


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """Which document each column of a score matrix is, and which documents must not be negatives.

    The columns of B queries lie one query after the other: its positive, then its negatives. Documents
    are named by a hash of their contents, so that a copy is the same as its original.

    contents: uint64 [B * (1 + n)].
    known: uint64 [K], all known positives; owner: int64 [K], the query of each.
    teacher: float32 [B, 1 + n], a teacher's scores of each query's own documents, nan where it has none.
    """

    queries: int
    contents: NDArray[np.uint64]
    known: NDArray[np.uint64]
    owner: NDArray[np.int64]
    teacher: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, draw: SampledBatch, content_hash: ContentHashes) -> "BatchColumns":
        """The columns of one draw; content_hash: uint64 [N], by row of the corpus."""
        contents = content_hash[draw.documents.reshape(-1)]
        return cls(len(draw.query_ids), contents, content_hash[draw.known], draw.owner, draw.teacher)

    @property
    def width(self) -> int:
        """How many columns a query has."""
        return len(self.contents) // self.queries

    def blocked(self) -> NDArray[np.bool_]:
        """bool [B, M]: the column's document is a known positive of the row's query, or a copy of one."""
        return known_to(self.contents, self.known, self.owner, self.queries)

    def related_queries(self) -> NDArray[np.bool_]:
        """bool [B, B]: the same query, or one of the two knows the other's positive."""
        knows = self.blocked()[:, :: self.width]
        related: NDArray[np.bool_] = knows | knows.T | np.eye(self.queries, dtype=bool)
        return related

    def related_documents(self) -> NDArray[np.bool_]:
        """bool [M, M]: the column's document is of the row's query, or known to be relevant to it."""
        owner = np.repeat(np.arange(self.queries), self.width)
        related: NDArray[np.bool_] = self.blocked()[owner] | (owner[:, None] == owner)
        return related


@dataclass(frozen=True, slots=True)
class GuideVectors:
    """A guide's vectors of one batch: queries float32 [B, d], and documents float32 [D, d], each once."""

    queries: Tensor
    documents: Tensor

    def scores(self, column: Tensor, parts: Set[str]) -> dict[str, Tensor]:
        """Those of the guide's parts of a `ScoreBatch` that are named; column: int64 [M], the document of each."""
        queries = self.queries.to(column.device, non_blocking=True)
        chosen = self.documents.to(column.device, non_blocking=True)[column]
        sides = {
            "guide": (queries, chosen),
            "guide_query_query": (queries, queries),
            "guide_document_document": (chosen, chosen),
        }
        return {part: rows @ columns.T for part, (rows, columns) in sides.items() if part in parts}


def apart(scores: Tensor, related: NDArray[np.bool_]) -> Tensor:
    """Scores float [n, n] of queries or of documents with each other, -inf where they are related."""
    return scores.masked_fill(placed(related, scores.device), -torch.inf)


def masked(scores: Tensor, columns: BatchColumns) -> ScoreBatch:
    """Scores float [B, B * (1 + n)] with what their columns are.

    A row's own positive is valid; all other columns that hold a known positive of the row are not. A teacher's scores
    are those of the row's own documents, nan elsewhere.
    """
    width = columns.width
    column = torch.arange(len(columns.contents), device=scores.device)
    row = torch.arange(columns.queries, device=scores.device)[:, None]
    positive = column == row * width
    own = (column // width == row) & ~positive
    blocked = placed(columns.blocked(), scores.device)
    teacher = None if columns.teacher is None else torch.from_numpy(columns.teacher).to(scores)
    if teacher is not None:
        teacher = torch.full_like(scores, torch.nan).masked_scatter(positive | own, teacher)
    return ScoreBatch(scores, positive, own, positive | ~blocked, teacher=teacher)


def in_slots(vectors: Tensor, counts: Tensor, slots: int) -> Tensor:
    """The segments of each document side by side.

    Args:
        vectors: float32 [S, d], those of one document after the other.
        counts: int64 [D], how many each has, at most `slots`.
        slots: the most segments of a document.

    Returns:
        float32 [D, slots, d + 1], with a 1 after each vector; zeros where there is no segment.
    """
    counts = counts.to(vectors.device)
    document = torch.arange(len(counts), device=vectors.device).repeat_interleave(counts, output_size=len(vectors))
    slot = torch.arange(len(vectors), device=vectors.device) - (counts.cumsum(0) - counts)[document]
    marked = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)
    empty = vectors.new_zeros(len(counts), slots, vectors.shape[1] + 1)
    return empty.index_put((document, slot), marked)


def cut_slots(slots: Tensor, cut: Callable[[Tensor], Tensor]) -> Tensor:
    """Slots [D, slots, d + 1] of shorter vectors; cut: makes them of [n, d]."""
    vectors = cut(slots[..., :-1].flatten(0, 1))
    return torch.cat([vectors.view(*slots.shape[:2], -1), slots[..., -1:]], dim=2)


def best_segments(queries: Tensor, slots: Tensor) -> Tensor:
    """The largest inner product of each query with a segment of each document; its gradient goes to that one alone.

    Args:
        queries: float [B, d].
        slots: float32 [D, slots, d + 1], as `in_slots` makes them; each document has a segment at least.

    Returns:
        float32 [B, D].
    """
    vectors, there = slots[..., :-1], slots[..., -1] > 0
    with torch.autocast(queries.device.type, enabled=False):
        products = (at_least_float32(queries) @ vectors.flatten(0, 1).T).reshape(len(queries), *there.shape)
    best: Tensor = products.masked_fill(~there, -torch.inf).max(dim=2).values
    return best
