"""Token vectors of a late-interaction encoder: compared by MaxSim, stored one document after the other.

A tensor of texts is float [n, T, d + 1]: a vector for each token, followed by 1 where the token is scored, else 0.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.encoders.protocol import Form
from hardneg.encoders.representation import Batches, Representation
from hardneg.encoders.spec import Side
from hardneg.encoders.tokens.segmenting import count_rows
from hardneg.encoders.towers import forward
from hardneg.formats.corpus import Corpus
from hardneg.formats.vectors.token_store import TokenWriter
from hardneg.records.types import TokenVectors
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Progress

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


def maxsim(queries: Tensor, documents: Tensor, mean: bool = False) -> Tensor:
    """The sum, over a query's tokens, of the largest inner product with a token of the document.

    The gradient of each query token goes to the best document token alone. A document without any scored token gets
    a score far below all others.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020), Eq. 3.

    Args:
        queries: [B, q, d + 1].
        documents: [D, t, d + 1].
        mean: whether each score is divided by the number of the query's tokens.

    Returns:
        float32 [B, D].
    """
    from sentence_transformers.util import maxsim as of_all

    with torch.autocast(queries.device.type, enabled=False):
        (ours, mine), (theirs, there) = ((each[..., :-1].float(), each[..., -1] > 0) for each in (queries, documents))
        scores: Tensor = of_all(ours, theirs, a_mask=mine, b_mask=there, length_normalize=mean)
        return scores


@dataclass(frozen=True, eq=False)
class TokenRows:
    """Documents and the offsets of their vectors; offsets: int64 [N + 1], where each document's begin."""

    corpus: Corpus
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def doc_ids(self) -> Sequence[str]:
        """The id of each document."""
        return self.corpus.doc_ids

    def blocks(self, start: int, stop: int, size: int) -> Iterator[Sequence[str]]:
        """The texts of documents `start` to `stop`, `size` at a time."""
        return self.corpus.blocks(start, stop, size)


@dataclass(frozen=True)
class VectorAToken(Representation):
    """A vector for each scored token, float32 [n, T, d + 1] on the device; mean: scores are by token of the query."""

    mean: bool = False
    form: ClassVar[Form] = "token-vectors"
    files: ClassVar[Sequence[str]] = ("index", "docid", "offsets.npy")
    block: ClassVar[int] = 1024

    def run(self, parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: Side) -> Tensor:
        """float32 [n, T, d + 1]."""
        features = forward(parts, features, device, side)
        vectors, scored = features["token_embeddings"], features["attention_mask"]
        kept = scored.to(vectors.dtype)[..., None]
        return torch.cat([vectors.masked_fill(~scored.bool()[..., None], 0), kept], dim=-1)

    def gathered(self, batches: Batches, count: int, dimension: int) -> TokenVectors:
        """The texts in order; of the padding nothing is held."""
        vectors: list[NDArray[np.float32]] = [np.empty((0, dimension), np.float32)] * count
        for rows, tensor in batches:
            part = self.collect(tensor)
            for row, start, stop in zip(rows.tolist(), part.offsets[:-1], part.offsets[1:], strict=True):
                vectors[row] = part.vectors[start:stop]
        offsets = np.cumsum([0, *map(len, vectors)], dtype=np.int64)
        return TokenVectors(offsets, np.concatenate([np.empty((0, dimension), np.float32), *vectors]))

    def collect(self, tensor: Tensor) -> TokenVectors:
        """The scored vectors."""
        there = tensor[..., -1] > 0
        offsets = torch.cat([there.new_zeros(1, dtype=torch.int64), there.sum(1).cumsum(0)])
        return TokenVectors(offsets.cpu().numpy(), tensor[..., :-1][there].float().cpu().numpy())

    def tensor(self, encoded: TokenVectors, device: torch.device) -> Tensor:
        """float32 [n, T, d + 1], T of the longest text; zeros pad the others."""
        lengths = torch.from_numpy(encoded.offsets).diff()
        there = torch.arange(int(lengths.max()) if len(lengths) else 0) < lengths[:, None]
        vectors = torch.from_numpy(encoded.vectors).to(device)
        tensor = vectors.new_zeros(*there.shape, vectors.shape[1] + 1)
        tensor[there.to(device)] = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)
        return tensor

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None) -> Tensor:
        """MaxSim; each document once, however many columns it has."""
        scores = maxsim(queries, documents, self.mean)
        return scores if columns is None else scores[:, columns]

    def score_lists(self, queries: Tensor, encoded: TokenVectors) -> Tensor:
        """MaxSim."""
        documents = self.tensor(encoded, queries.device)
        lists = documents.view(len(queries), -1, *documents.shape[1:])
        return torch.cat([maxsim(query[None], own, self.mean) for query, own in zip(queries, lists, strict=True)])

    def rows(self, encoder: "Encoder", corpus: Corpus, folder: Path, progress: Progress, here: World) -> TokenRows:
        """The documents, their tokens counted."""
        mask = next(part for part in encoder.parts("document") if hasattr(part, "skiplist_words"))

        def count(texts: Sequence[str]) -> NDArray[np.int64]:
            tokens = encoder.tokenise(texts, "document")
            ids = torch.from_numpy(tokens.columns["input_ids"]).long()
            kept = mask({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, task="document")["attention_mask"]
            before = np.concatenate([[0], np.cumsum(kept.numpy(), dtype=np.int64)])
            return np.diff(before[tokens.offsets])

        counts = count_rows(corpus, "tokens", count, folder, progress, here)
        return TokenRows(corpus, np.concatenate([[0], np.cumsum(counts)]))

    def writer(self, folder: Path, rows: TokenRows, dimension: int) -> TokenWriter:
        """A writer of the vectors and of where each document's begin."""
        return TokenWriter(folder, dimension, rows.offsets)
