"""One vector a text, compared by the inner product."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.encoders.protocol import Form, StoredRows
from hardneg.encoders.representation import Batches, at_least_float32, list_products
from hardneg.encoders.spec import Side
from hardneg.encoders.towers import forward, placed
from hardneg.formats.corpus import Corpus
from hardneg.formats.vectors.flat_vectors import FlatWriter, is_complete
from hardneg.runtime.distributed import World
from hardneg.runtime.progress import Progress

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder


class OneVector:
    """Texts as float32 [n, d], stored as a flat index."""

    form: ClassVar[Form] = "vectors"
    files: ClassVar[Sequence[str]] = ("index", "docid")
    block: ClassVar[int] = 4096

    def run(self, parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: Side) -> Tensor:
        """float32 [n, d]."""
        return forward(parts, features, device, side)["sentence_embedding"]

    def gathered(self, batches: Batches, count: int, dimension: int) -> NDArray[np.float32]:
        """float32 [count, dimension]; copied from the device once."""
        vectors = torch.empty((count, dimension))
        for rows, part in batches:
            vectors = vectors if vectors.device == part.device else vectors.to(part.device)
            vectors[placed(rows, part.device)] = part
        array: NDArray[np.float32] = vectors.cpu().numpy()
        return array

    def collect(self, tensor: Tensor) -> NDArray[np.float32]:
        """float32 [n, d]."""
        array: NDArray[np.float32] = tensor.float().cpu().numpy()
        return array

    def tensor(self, encoded: NDArray[np.float32], device: torch.device) -> Tensor:
        """float32 [n, d]."""
        return torch.from_numpy(encoded).to(device)

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None) -> Tensor:
        """Inner products, outside autocast."""
        chosen = documents if columns is None else documents[columns]
        with torch.autocast(queries.device.type, enabled=False):
            return at_least_float32(queries) @ at_least_float32(chosen).T

    def score_lists(self, queries: Tensor, encoded: NDArray[np.float32]) -> Tensor:
        """Inner products, outside autocast."""
        return list_products(queries, self.tensor(encoded, queries.device))

    def rows(self, encoder: "Encoder", corpus: Corpus, folder: Path, progress: Progress, here: World) -> StoredRows:
        """The documents."""
        return corpus

    def writer(self, folder: Path, rows: StoredRows, dimension: int, number: int) -> FlatWriter:
        """A writer of the flat index."""
        return FlatWriter(folder, dimension, len(rows), number)

    def is_complete(self, folder: Path, rows: StoredRows, dimension: int) -> bool:
        """Whether it holds as many vectors as there are rows."""
        return is_complete(folder, dimension, len(rows))
