"""What differs between families of encoders after the network: the encoding of texts, its scores and its storage."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.encoders.protocol import Form, StoredRows, StoreWriter
from hardneg.encoders.spec import Side
from hardneg.encoders.tokens.segmenting import count_rows
from hardneg.encoders.tokens.tokens import Tokens
from hardneg.encoders.towers import forward, placed
from hardneg.formats.corpus import Corpus
from hardneg.formats.vectors import FlatWriter
from hardneg.records.errors import ModelError
from hardneg.records.types import Encoded
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Progress

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


_FEW = 15  # different texts that may have one vector
Batches = Iterable[tuple[NDArray[np.int64], Tensor]]
"""Numbers of some texts, int64 [b], and their encoding."""


class Representation:
    """The encoding of texts by a family of encoders: one vector each, stored as a flat index; others override it.

    On the device, with gradients, a tensor of n texts is float32 [n, d], or [n, T, d + 1] for T tokens a text, the last
    number 1 where a token is scored and 0 where there is none.

    form: of the encoding. files: those of a store of it. block: the number of documents written at a time.
    """

    form: ClassVar[Form] = "vectors"
    files: ClassVar[Sequence[str]] = ("index", "docid")
    block: ClassVar[int] = 4096

    count_rows = staticmethod(count_rows)

    def expanded(self, tokens: Tokens, transformer: Any) -> Tokens:
        """The tokens of queries as a transformer of sentence-transformers reads them.

        Raises:
            ModelError: it pads queries with tokens that have vectors of their own, and a text has one here.
        """
        if getattr(transformer, "query_expansion", None):
            raise ModelError("the model's query_expansion is for a vector a token: set encoder: multi-vector")
        return tokens

    def run(self, parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: Side) -> Tensor:
        """The tensor of some texts: passes their features through the parts of an encoder."""
        return forward(parts, features, device, side)["sentence_embedding"]

    def gathered(self, batches: Batches, count: int, dimension: int) -> Encoded:
        """`count` texts in order, on the host, from batches in any order; copied from the device once."""
        vectors = torch.empty((count, dimension))
        for rows, part in batches:
            vectors = vectors if vectors.device == part.device else vectors.to(part.device)
            vectors[placed(rows, part.device)] = part
        array: NDArray[np.float32] = vectors.cpu().numpy()
        return array

    def collect(self, tensor: Tensor) -> Encoded:
        """The texts of a tensor, on the host."""
        array: NDArray[np.float32] = tensor.float().cpu().numpy()
        return array

    def tensor(self, encoded: Any, device: torch.device) -> Tensor:
        """The texts as a tensor again."""
        return torch.from_numpy(encoded).to(device)

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None) -> Tensor:
        """float [B, M] in float32 or better, with gradients; columns: int64 [M], the document of each; None: all.

        Inner products, outside autocast.
        """
        chosen = documents if columns is None else documents[columns]
        with torch.autocast(queries.device.type, enabled=False):
            return at_least_float32(queries) @ at_least_float32(chosen).T

    def score_lists(self, queries: Tensor, encoded: Any) -> Tensor:
        """float [B, M], the scores of B queries with M documents of their own each, as an index holds B * M in a row.

        Gradients go to the queries alone.
        """
        return list_products(queries, self.tensor(encoded, queries.device))

    def rows(self, encoder: "Encoder", corpus: Corpus, folder: Path, progress: Progress, here: World) -> StoredRows:
        """What of the corpus is stored: the documents."""
        return corpus

    def writer(self, folder: Path, rows: Any, dimension: int) -> StoreWriter:
        """A writer of the rows."""
        return FlatWriter(folder, dimension, len(rows))


def first_broken(encoded: Encoded) -> int | None:
    """The number of the first text with a value that is not finite; None where all are."""
    if isinstance(encoded, np.ndarray):
        broken = np.flatnonzero(~np.isfinite(encoded).all(axis=1))
        return int(broken[0]) if len(broken) else None
    finite = [np.isfinite(array).all(axis=tuple(range(1, array.ndim))) for array in encoded.flat.values()]
    positions = np.flatnonzero(~np.logical_and.reduce(finite))
    return int(np.searchsorted(encoded.offsets, positions[0], "right")) - 1 if len(positions) else None


def check_different(name: str, side: Side, texts: Sequence[str], encoded: Encoded) -> None:
    """Refuses vectors that are all the same, unless there are few texts: their words may be unknown. As ModelError."""
    arrays = [encoded] if isinstance(encoded, np.ndarray) else encoded.flat.values()
    alike = all(np.all(array == array[:1]) for array in arrays)
    if alike and len({" ".join(text.casefold().split()) for text in texts}) > _FEW:
        problem = f"the vectors of {len(texts)} {side} texts are all the same"
        raise ModelError(f"model {name!r}: {problem}: check its weights and its tokenizer")


def at_least_float32(tensor: Tensor) -> Tensor:
    """The tensor in float32, or in float64 if it is that already."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))


def list_products(queries: Tensor, documents: Tensor) -> Tensor:
    """float32 [B, M]: each of [B, d] queries with the vectors of its own list, of [B * M, d], outside autocast."""
    with torch.autocast(queries.device.type, enabled=False):
        own = documents.view(len(queries), -1, documents.shape[-1])
        return (own @ queries.float()[:, :, None]).squeeze(2)
