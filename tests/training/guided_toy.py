"""Batches of vectors with a guide's beside them, as sentence-transformers has them too; a guide for the toy task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from hardneg.records import ScoreBatch
from hardneg.training import batches, examples, options

SHAPES = [(4, 0, 8), (6, 1, 5), (5, 3, 16)]
"""Queries, negatives of each, dimensions."""


@dataclass(frozen=True)
class Vectors:
    """Queries float64 [B, d] and documents [B, 1 + n, d], with gradients; and a guide's."""

    queries: Tensor
    documents: Tensor
    guide_queries: Tensor
    guide_documents: Tensor

    def columns(self) -> list[dict[str, Tensor]]:
        """As the losses of sentence-transformers are given them: queries, positives, first negatives, ..."""
        sides = [(self.queries, self.guide_queries)]
        sides += list(zip(self.documents.unbind(1), self.guide_documents.unbind(1), strict=True))
        return [{"own": own, "guide": guide} for own, guide in sides]

    def gradients(self, value: Tensor) -> list[Tensor]:
        return list(torch.autograd.grad(value, [self.queries, self.documents]))

    def scored(self) -> ScoreBatch:
        """The cosines, with all optional parts."""
        count, width, size = self.documents.shape
        none = np.empty(0, np.int64)
        columns = batches.BatchColumns(count, np.arange(count * width, dtype=np.uint64), none.astype(np.uint64), none)
        queries, documents = normalize(self.queries), normalize(self.documents.reshape(-1, size))
        chosen = normalize(self.guide_documents.reshape(count * width, -1))
        guide = {"queries": normalize(self.guide_queries), "documents": chosen}
        parts = batches.guide_scores(guide, torch.arange(count * width), set(options.GUIDES))
        return replace(
            batches.masked(queries @ documents.T, columns),
            query_query=batches.apart(queries @ queries.T, columns.related_queries()),
            document_document=batches.apart(documents @ documents.T, columns.related_documents()),
            **parts,
        )


def drawn(shape: Sequence[int], seed: int = 11) -> Vectors:
    """Random vectors; a query's documents are a little like it, and so they are to the guide."""
    count, negatives, size = shape
    source = torch.Generator().manual_seed(seed)

    def normal(*sizes: int) -> Tensor:
        return torch.randn(*sizes, generator=source, dtype=torch.float64)

    guide, queries = normal(count, size), normal(count, size)
    known, documents = (side[:, None] * 0.6 + normal(count, 1 + negatives, size) for side in (guide, queries))
    return Vectors(queries.requires_grad_(), documents.requires_grad_(), guide, known)


class Given(nn.Module):
    """A model of sentence-transformers whose vectors are among the features."""

    max_seq_length = 8

    def __init__(self, name: str, dimension: int = 0) -> None:
        from tokenizers import Tokenizer, models
        from transformers import PreTrainedTokenizerFast

        super().__init__()
        self.name, self._dimension = name, dimension
        self.tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel({"a": 0}, unk_token="a")))

    def __getitem__(self, place: int) -> "Given":
        return self

    def get_embedding_dimension(self) -> int:
        return self._dimension

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features[self.name]}


class Rows:
    """An index that is an array."""

    def __init__(self, vectors: np.ndarray[Any, Any]) -> None:
        self._vectors = vectors

    def search(self, queries: Any, k: int) -> Any:
        raise NotImplementedError

    def encoded(self, rows: Any) -> Any:
        return self._vectors[rows]


def toy_guide(data: examples.TrainingData, seed: int = 5) -> examples.Guide:
    """Unit vectors of 3 numbers for the toy's queries and documents; a query is a little like its positives."""
    source = np.random.default_rng(seed)
    documents = source.normal(size=(len(data.corpus), 3))
    positives = [data.corpus.rows(list(data.positives[query_id])) for query_id in data.query_ids]
    queries = np.stack([documents[rows].mean(0) for rows in positives]) + source.normal(size=(len(positives), 3)) / 2

    def unit(vectors: Any) -> Any:
        return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)

    return examples.Guide(Rows(unit(documents)), unit(queries), "toy")
