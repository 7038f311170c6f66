"""Tables of token vectors: read from a static model's files, or computed from a transformer."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from hardneg.encoders.families.static.static_files import TableFiles
from hardneg.encoders.open.model_files import load_options, weight_files
from hardneg.records.errors import ModelError
from hardneg.runtime.seeding import SEED, generator

_NAMES = ("word_embeddings", "word_embedding", "embed_tokens", "tok_embeddings", "wte", "shared")
_WORDS = tuple(f"{name}.weight" for name in _NAMES)


def read_table(files: TableFiles) -> Tensor:
    """float32 [V, d], the vector of each token id.

    Source: the formats of `StaticEmbedding` of sentence-transformers and of model2vec: `embedding.weight`, or
    `embeddings` with, for a vocabulary that shares rows, `mapping` (int [V], the row of each id) and `weights` (float
    [V], what a row is multiplied with for an id).
    """
    held = {name: tensor for path in files.weights for name, tensor in _named(path)}
    table = held.get("embedding.weight")
    if table is None and "embeddings" in held:
        table = held["embeddings"]
        table = table[held["mapping"].long()] if "mapping" in held else table
        table = table.float() * held["weights"].float()[:, None] if "weights" in held else table
    if table is None or table.dim() != 2:
        raise ModelError(f"model {files.folder}: no table of token vectors in its weights: copy the model again")
    return table.float().contiguous()


def _named(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors of a file by name, one at a time."""
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            yield from ((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
        return
    load_options(path.parent)  # refuses what is not tensors alone
    yield from torch.load(path, map_location="cpu", weights_only=True).items()


def word_embeddings(folder: Path) -> Tensor:
    """float32 [V, d], a transformer's own token table; nothing else of its weights is kept.

    Raises:
        ModelError: its weights have no such table.
    """
    for path in weight_files(folder):
        for name, tensor in _named(path):
            if name.endswith(_WORDS) and tensor.dim() == 2:
                return tensor.float().contiguous()
    raise ModelError(f"model {folder}: no token table in its weights: name another model, or leave encoder out")


def untrained(vectors: Tensor) -> Tensor:
    """float32 [V, d]: numbers from a normal distribution, always the same, of mean 0 and the table's deviation."""
    drawn = generator(SEED, "untrained").standard_normal(vectors.shape, np.float32)
    return torch.from_numpy(drawn) * vectors.std()


def principal(table: Tensor, dimensions: int) -> Tensor:
    """float32 [V, dimensions]: the table less its mean row, in its first principal components.

    The components come from the covariance over rows, the one of largest variance first; the largest entry of each is
    positive, so that the result does not depend on the library's choice of signs.
    """
    centred = table.double() - table.double().mean(0)
    _, directions = torch.linalg.eigh(centred.T @ centred / max(1, len(centred) - 1))
    chosen = directions.flip(1)[:, :dimensions]
    largest = chosen.gather(0, chosen.abs().argmax(0, keepdim=True))
    projected: Tensor = centred @ (chosen * largest.sign())
    return projected.float()


def sif_weights(rows: int, coefficient: float) -> Tensor:
    """float32 [rows]: a / (a + p) for each token, a the coefficient, p how often the token comes.

    Ids are taken as ranks by frequency, and p as Zipf's law has it: p of rank r is (1 / r) / sum of 1 / r over all, r
    from 2 on.

    Source: Arora et al., A Simple but Tough-to-Beat Baseline for Sentence Embeddings (ICLR 2017), Eq. 3; frequencies
    by Zipf's law as in model2vec.
    """
    inverse = 1.0 / torch.arange(2, rows + 2, dtype=torch.float64)
    weights: Tensor = coefficient / (coefficient + inverse / inverse.sum())
    return weights.float()


def table_of(vectors: Tensor, dimensions: int | None, sif: float | None) -> Tensor:
    """A table with fewer dimensions and weights, as requested; of few dimensions all are kept."""
    table = vectors if dimensions is None else principal(vectors, min(dimensions, vectors.shape[1]))
    return table if sif is None else table * sif_weights(len(table), sif)[:, None]
