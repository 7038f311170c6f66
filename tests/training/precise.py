"""A toy encoder in float64 with a head for each side, so that gradients can be compared to the last digits."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from toy import _hash

from hardneg.encoders.encoder import Representation
from hardneg.formats.segments import Segments


class Words(nn.Module):
    """Mean of word vectors, then dropout, a linear layer of the side's own, and tanh."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(512, 8, dtype=torch.float64)
        self.dropout = nn.Dropout(0.5)
        self.heads = nn.ModuleDict({side: nn.Linear(8, 6, dtype=torch.float64) for side in ("query", "document")})

    def forward(self, features: dict[str, Tensor], side: str) -> Tensor:
        mask = features["attention_mask"][..., None]
        mean = (self.words(features["input_ids"]) * mask).sum(1) / mask.sum(1)
        vectors: Tensor = self.heads[side](self.dropout(mean)).tanh()
        return vectors

    def tokens(self, features: dict[str, Tensor], side: str) -> Tensor:
        """A vector a word, and 1 behind it; zeros where there is no word."""
        vectors = self.heads[side](self.dropout(self.words(features["input_ids"]))).tanh()
        there = features["attention_mask"][..., None].to(vectors.dtype)
        return torch.cat([vectors * there, there], 2)


class PreciseEncoder:
    """What training needs of an encoder; `passes` has the side, the size and whether with a graph, of each pass."""

    def __init__(self, dropout: float = 0.0, kept: int = 6) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.module = Words()
        self.module.dropout.p = dropout
        self.device = torch.device("cpu")
        self.spec = SimpleNamespace()
        self.dimension = kept
        self.passes: list[tuple[str, int, bool]] = []

    def features(self, texts: list[str], side: str) -> dict[str, Tensor]:
        return _padded([text.split() for text in texts])

    def segment(self, texts: list[str], cut: Segments) -> Any:
        words = [text.split() for text in texts]
        parts = [[word[i : i + cut.length] for i in range(0, len(word), cut.length)][: cut.count] for word in words]
        rows = [part for document in parts for part in document]
        tokens = SimpleNamespace(lengths=np.array([len(row) for row in rows]), batch=lambda chosen: _padded(rows))
        return SimpleNamespace(tokens=tokens, counts=np.array([len(document) for document in parts]))

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None = None) -> Tensor:
        return Representation().score(queries, documents, columns)

    def embed(self, features: dict[str, Tensor], side: str) -> Tensor:
        self.passes.append((side, len(features["input_ids"]), torch.is_grad_enabled()))
        vectors: Tensor = self.module(features, side)
        return self.truncated(vectors, self.dimension)

    def truncated(self, encoded: Tensor, dimension: int) -> Tensor:
        return encoded[..., :dimension]


class PreciseTokens(PreciseEncoder):
    """The same with a vector a word, scored by the sum of each query word's best."""

    def embed(self, features: dict[str, Tensor], side: str) -> Tensor:
        self.passes.append((side, len(features["input_ids"]), torch.is_grad_enabled()))
        return self.module.tokens(features, side)

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None = None) -> Tensor:
        products = torch.einsum("bqd,mtd->bmqt", queries[..., :-1], documents[..., :-1])
        best = products.masked_fill(documents[None, :, None, :, -1] == 0, -torch.inf).amax(3)
        scores = (best * queries[:, None, :, -1]).sum(2)
        return scores if columns is None else scores[:, columns]


def _padded(texts: list[list[str]]) -> dict[str, Tensor]:
    ids = torch.zeros(len(texts), max(map(len, texts)), dtype=torch.int64)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor([_hash(word) for word in text])
    lengths = torch.tensor([len(text) for text in texts])
    return {"input_ids": ids, "attention_mask": (torch.arange(ids.shape[1]) < lengths[:, None]).long()}
