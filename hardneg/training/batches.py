"""Batches of training examples: tokenised ahead of time, encoded in parts of similar length, and scored for a loss."""

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.towers import at_least_float32, placed
from hardneg.formats import arrays, segments
from hardneg.formats.corpus import Corpus
from hardneg.records import ScoreBatch
from hardneg.runtime import world
from hardneg.training import examples, sources

Features = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class BatchColumns:
    """The documents in the columns of a score matrix, and the documents that must not serve as negatives.

    Each of the B `queries` has 1 + n consecutive columns: its positive, then its negatives. Documents are identified by
    a hash of their contents, so that duplicates count as the same document.

    contents: uint64 [B * (1 + n)], content hash of each column's document.
    known: uint64 [K], content hashes of all known positives; owner: int64 [K], the query of each positive.
    teacher: float32 [B, 1 + n], teacher scores of each query's own documents, nan if missing.
    """

    queries: int
    contents: NDArray[np.uint64]
    known: NDArray[np.uint64]
    owner: NDArray[np.int64]
    teacher: NDArray[np.float32] | None = None

    @classmethod
    def of(cls, draw: examples.SampledBatch, content_hash: NDArray[np.uint64]) -> "BatchColumns":
        """Create the columns of a sampled batch; content_hash: uint64 [N], by row of the corpus."""
        contents = content_hash[draw.documents.reshape(-1)]
        return cls(len(draw.query_ids), contents, content_hash[draw.known], draw.owner, draw.teacher)

    @property
    def width(self) -> int:
        return len(self.contents) // self.queries

    def blocked(self) -> NDArray[np.bool_]:
        """Return a mask of each query's known positives and their duplicates among the M columns, bool [B, M]."""
        return arrays.known_to(self.contents, self.known, self.owner, self.queries)

    def related_queries(self) -> NDArray[np.bool_]:
        """Return a mask, bool [B, B]: the diagonal, and pairs of queries that share the drawn positive of one."""
        knows = self.blocked()[:, :: self.width]
        related: NDArray[np.bool_] = knows | knows.T | np.eye(self.queries, dtype=bool)
        return related

    def related_documents(self) -> NDArray[np.bool_]:
        """Return a mask, bool [M, M], of the documents (columns) drawn for or relevant to the query of each row."""
        owner = np.repeat(np.arange(self.queries), self.width)
        related: NDArray[np.bool_] = self.blocked()[owner] | (owner[:, None] == owner)
        return related


def apart(scores: Tensor, related: NDArray[np.bool_]) -> Tensor:
    """Return scores between queries or documents, float [n, n], set to -inf where `related`, bool [n, n], is true."""
    return scores.masked_fill(placed(related, scores.device), -torch.inf)


def masked(scores: Tensor, columns: BatchColumns) -> ScoreBatch:
    """Return the `ScoreBatch` of a score matrix, float [B, B * (1 + n)], with the given columns.

    A row's own positive is valid; the other known positives of the row's query, and duplicates of any of them, are not.
    Teacher scores cover a row's own documents and are nan elsewhere.
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
    """Group segment vectors by document: float32 [D, slots, d + 1], with a 1 after each vector; empty slots are zero.

    vectors: float32 [S, d], ordered by document. counts: int64 [D], segments per document, at most `slots`.
    """
    counts = counts.to(vectors.device)
    document = torch.arange(len(counts), device=vectors.device).repeat_interleave(counts, output_size=len(vectors))
    slot = torch.arange(len(vectors), device=vectors.device) - (counts.cumsum(0) - counts)[document]
    marked = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)
    empty = vectors.new_zeros(len(counts), slots, vectors.shape[1] + 1)
    return empty.index_put((document, slot), marked)


def best_segments(queries: Tensor, slots: Tensor) -> Tensor:
    """Return the largest inner product of each query with any segment of each document, float32 [B, D].

    Only the best segment receives a gradient. queries: float [B, d]. slots: float32 [D, slots, d + 1], from `in_slots`;
    each document has at least one segment.
    """
    vectors, there = slots[..., :-1], slots[..., -1] > 0
    with torch.autocast(queries.device.type, enabled=False):
        products = (at_least_float32(queries) @ vectors.flatten(0, 1).T).reshape(len(queries), *there.shape)
    best: Tensor = products.masked_fill(~there, -torch.inf).max(dim=2).values
    return best


@dataclass(frozen=True, slots=True)
class Parts:
    """The features of n texts in parts. position: int64 [n], index of each text in joined parts; None for one part."""

    features: list[Features]
    position: Tensor | None

    def join(self, vectors: Sequence[Tensor]) -> Tensor:
        """Join the parts' vectors in the order of the texts: [n, d], or [n, T, d] padded to the largest T."""
        if self.position is None:
            return vectors[0]
        if vectors[0].dim() > 2:
            longest = max(part.shape[1] for part in vectors)
            vectors = [nn.functional.pad(part, (0, 0, 0, longest - part.shape[1])) for part in vectors]
        return torch.cat(list(vectors))[self.position.to(vectors[0].device)]

    def through(self, embed: Callable[[Features], Tensor]) -> Tensor:
        """Embed the texts with one forward pass per part; return the vectors in the order of the texts.

        The result differs from a single pass by rounding and by dropout, which is sampled in each pass.
        """
        return self.join([embed(part) for part in self.features])


def in_parts(features: Features, size: int) -> Parts:
    """Split features into parts of up to `size` texts, longest first, without columns that are all padding in a part.

    features: tensors [n, longest text] with an `attention_mask`, padded on either side, or [n] with one value per text.
    Without a mask, all texts form a single part.
    """
    if "attention_mask" not in features or len(features["attention_mask"]) <= size:
        return Parts([features], None)
    order = features["attention_mask"].sum(1).argsort(descending=True, stable=True)
    parts = []
    for chosen in torch.split(order, size):
        part = {name: value[chosen] for name, value in features.items()}
        used = part["attention_mask"].any(0)
        if "query_expansion_positions" in part:  # scored, although no token attends to them
            used |= part["query_expansion_positions"].any(0)
        parts.append({name: value[:, used] if value.dim() > 1 else value for name, value in part.items()})
    return Parts(parts, order.argsort())


@dataclass(frozen=True, slots=True)
class Batch:
    """A tokenised batch. query_ids: ids of all queries of the batch, in all processes.

    queries, documents: features of this process's share, without duplicate documents.
    distinct: number D of distinct documents in all shares. column: int64 [M], index of each score column's document.
    counts: int64, number of segments (rows of `documents`) per document in this share; None if documents are not split.
    guide: vectors of the guide by key: `queries`, float32 [B, d]; `documents`, float32 [D, d]; empty without a guide.
    """

    query_ids: list[str]
    queries: Features
    documents: Features
    distinct: int
    column: Tensor
    columns: BatchColumns
    counts: Tensor | None = None
    guide: Features = field(default_factory=dict)


def guide_scores(guide: Features, column: Tensor, parts: Set[str]) -> dict[str, Tensor]:
    """Return the guide scores that are named in `parts`, as fields of a `ScoreBatch`. guide, column: as in `Batch`."""
    queries = guide["queries"].to(column.device, non_blocking=True)
    chosen = guide["documents"].to(column.device, non_blocking=True)[column]
    sides = {
        "guide": (queries, chosen),
        "guide_query_query": (queries, queries),
        "guide_document_document": (chosen, chosen),
    }
    return {part: rows @ columns.T for part, (rows, columns) in sides.items() if part in parts}


def make_batch(
    encoder: Encoder,
    corpus: Corpus | sources.JoinedCorpora,
    draw: examples.SampledBatch,
    cut: segments.Segments | None = None,
    guide: examples.Guide | None = None,
) -> Batch:
    """Tokenise this process's share of `draw`; split documents by `cut` and add the vectors of `guide`, unless None."""
    rows, column = np.unique(draw.documents, return_inverse=True)
    contents, counts = corpus.contents(rows[own_share(len(rows))]), None
    if cut is None:
        documents = encoder.features(contents, "document")
    else:
        segmented = encoder.segment(contents, cut)
        documents = segmented.tokens.batch(np.arange(len(segmented.tokens.lengths)))
        counts = torch.from_numpy(segmented.counts)
    queries = encoder.features(draw.texts[own_share(len(draw.texts))], "query")
    guides: Features = {}
    if guide is not None:
        vectors = map(torch.from_numpy, guide.of(draw.queries, rows))
        guides = dict(zip(("queries", "documents"), vectors, strict=True))
    if encoder.device.type == "cuda":
        queries, documents, guides = (
            {name: value.pin_memory() for name, value in part.items()} for part in (queries, documents, guides)
        )
    return Batch(
        draw.query_ids,
        queries,
        documents,
        len(rows),
        torch.from_numpy(column.reshape(-1)),
        BatchColumns.of(draw, corpus.content_hash),
        counts,
        guides,
    )


def own_share(total: int) -> slice:
    """Return this process's share of `total` items as a slice: at least one, since every process reduces gradients."""
    part = world().share(total)
    return slice(part.start, max(part.stop, part.start + 1))


def ahead(make: Callable[[Any], Any], starts: Iterable[Any]) -> Iterator[Any]:
    """Yield `make(start)` for each start, while another thread computes the next result."""
    with ThreadPoolExecutor(max_workers=1) as maker:
        waiting = None
        for start in starts:
            later = maker.submit(make, start)
            if waiting is not None:
                yield waiting.result()
            waiting = later
        if waiting is not None:
            yield waiting.result()
