"""Static encoders: a table of token vectors, opened or created from the token embeddings of a transformer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers import AutoTokenizer

from hardneg.encoders import families, tokens, towers
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open import contract, loading, model_files, resolved
from hardneg.encoders.spec import SIDES, FullSpec, Side
from hardneg.formats.segments import Segments
from hardneg.records import ModelError
from hardneg.runtime import SEED, generator

_NAMES = ("word_embeddings", "word_embedding", "embed_tokens", "tok_embeddings", "wte", "shared")


class StaticEncoder(Encoder):
    """An encoder with a sentence-transformers `StaticEmbedding`, shared by both sides or one per side."""

    def parts(self, side: Side) -> list[Any]:
        """Return the modules of one side, starting with a table that accepts padded texts."""
        table, *rest = super().parts(side)
        return [Bag(table.embedding), *rest]

    def tokenise(self, texts: Sequence[str], side: Side) -> tokens.Tokens:
        """Tokenise texts with the prompt of one side, without special tokens; an empty text has no tokens.

        Each text is truncated to the maximum length of the side, on the tokenizer's truncation side.
        """
        tokenizer, prompt = towers.route(self.module, side)[0].tokenizer, self.spec.prompt(side)
        left = (tokenizer.truncation or {}).get("direction") == "left"
        whole = tokens.own_backend(tokenizer, tokenizer).ids([prompt + text for text in texts])
        ids, offsets = tokens.cut(whole, self.spec.length(side), left)
        return tokens.Tokens({"input_ids": ids}, offsets, {}, False, 0, {"attention_mask": 1})

    def segment(self, texts: Sequence[str], cut: Segments) -> tokens.SegmentTokens:
        """Split texts into tokenised segments, each with the prompt. Raises ModelError if there is no room for text."""
        plain = tokens.plain_tokenizer(towers.route(self.module, "document")[0].tokenizer)
        return tokens.tokenise_segments(plain, texts, cut, self.spec.prompt("document"))


class Bag(nn.Module):
    """A module that averages the token vectors of each text; a text without tokens has a zero vector."""

    def __init__(self, embedding: nn.EmbeddingBag) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Add `sentence_embedding`, float [n, d], to features `input_ids` and `attention_mask`, int64 [n, longest]."""
        mask = features["attention_mask"].bool()
        lengths = mask.sum(1)
        features["sentence_embedding"] = self.embedding(features["input_ids"][mask], lengths.cumsum(0) - lengths)
        return features


def open_static(model: resolved.ResolvedModel, files: contract.TableFiles, device: str | None) -> StaticEncoder:
    """Open the static model in a folder. Raises ModelError if the model is incomplete or does not support the spec."""
    for folder in {path.parent for path in files.weights}:
        model_files.load_options(folder)  # refuses anything but tensors
    if files.whole.trained:
        whole = SentenceTransformer(str(files.whole.path), device="cpu", trust_remote_code=False, local_files_only=True)
        modules = list(whole.float().children())
    else:
        modules = [StaticEmbedding(Tokenizer.from_file(str(files.tokenizer)), embedding_weights=read_table(files))]
    encoder = _encoder(modules, model.full, device)
    loading.with_prompts(encoder.module, model.contract.prompts, model.contract.default_prompt_name)
    return encoder


def make_static(model: resolved.ResolvedModel, options: families.Static, device: str | None) -> StaticEncoder:
    """Create a static model from token embeddings. Raises ModelError if the model has none, or has a slow tokenizer."""
    spec, folder = model.full, model.files.path
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(f"model {spec.name!r} has a slow tokenizer; use a model with a tokenizer.json")
    table = word_embeddings(folder)
    if options.untrained:
        table = torch.from_numpy(generator(SEED, "untrained").standard_normal(table.shape, np.float32)) * table.std()
    if options.dimensions is not None:
        table = principal(table, min(options.dimensions, table.shape[1]))
    if options.sif is not None:
        table = table * sif_weights(len(table), options.sif)[:, None]
    backend.no_truncation()
    return _encoder([StaticEmbedding(backend, embedding_weights=table.float())], spec, device)


def _encoder(modules: list[nn.Module], spec: FullSpec, device: str | None) -> StaticEncoder:
    modules = towers.folded(modules, spec.name)
    longest = max(spec.length(side) for side in SIDES)
    for table in towers.transformers(nn.Sequential(*modules)):
        loading.check_tokenizer(table.tokenizer, table.num_embeddings, spec.name)
        if longest < contract.UNBOUNDED:  # truncates at the same end as before
            direction = (table.tokenizer.truncation or {}).get("direction", "right")
            table.tokenizer.enable_truncation(longest, direction=direction)
        else:
            table.tokenizer.no_truncation()
    return StaticEncoder(loading.assembled(loading.with_heads(modules, spec), spec, device), spec)


def read_table(files: contract.TableFiles) -> Tensor:
    """Read the vector of each token id, float32 [V, d]. Raises ModelError if the weights contain no table.

    Source: the formats of sentence-transformers' `StaticEmbedding` (`embedding.weight`) and of model2vec (`embeddings`
    and, if token ids share rows, `mapping`, int [V], the row of each id, and `weights`, float [V], a factor per id).
    """
    held = {name: tensor for path in files.weights for name, tensor in _named(path)}
    table = held.get("embedding.weight")
    if table is None and "embeddings" in held:
        table = held["embeddings"]
        table = table[held["mapping"].long()] if "mapping" in held else table
        table = table.float() * held["weights"].float()[:, None] if "weights" in held else table
    if table is None or table.dim() != 2:
        raise ModelError(f"model {files.whole.path}: the weights contain no token vectors; copy the model again")
    return table.float().contiguous()


def word_embeddings(folder: Path) -> Tensor:
    """Read only a transformer's token embeddings, float32 [V, d]. Raises ModelError if there are none."""
    for path in model_files.weight_files(folder):
        for name, tensor in _named(path):
            if name.endswith(tuple(f"{word}.weight" for word in _NAMES)) and tensor.dim() == 2:
                return tensor.float().contiguous()
    raise ModelError(f"model {folder}: the weights contain no token embeddings; use another model, or omit encoder")


def _named(path: Path) -> Iterator[tuple[str, Tensor]]:
    if path.suffix == ".safetensors":
        with safe_open(path, framework="pt") as file:
            yield from ((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
        return
    model_files.load_options(path.parent)  # refuses anything but tensors
    yield from torch.load(path, map_location="cpu", weights_only=True).items()


def principal(table: Tensor, dimensions: int) -> Tensor:
    """Centre a table and project it onto its first principal components, float32 [V, dimensions].

    The components come from the covariance over rows, largest variance first. The largest entry of each component is
    positive, so that the result does not depend on the signs that a library chooses.
    """
    centred = table.double() - table.double().mean(0)
    _, directions = torch.linalg.eigh(centred.T @ centred / max(1, len(centred) - 1))
    chosen = directions.flip(1)[:, :dimensions]
    largest = chosen.gather(0, chosen.abs().argmax(0, keepdim=True))
    projected: Tensor = centred @ (chosen * largest.sign())
    return projected.float()


def sif_weights(rows: int, coefficient: float) -> Tensor:
    """Return the weight of each token, float32 [rows]: a / (a + p) for the coefficient a and the token's frequency p.

    Token ids serve as frequency ranks: id i has rank r = i + 2 and p = (1 / r) / sum of all 1 / r (Zipf's law).

    Source: Arora et al., A Simple but Tough-to-Beat Baseline for Sentence Embeddings (ICLR 2017), Eq. 3; frequencies
    by Zipf's law as in model2vec.
    """
    inverse = 1.0 / torch.arange(2, rows + 2, dtype=torch.float64)
    weights: Tensor = coefficient / (coefficient + inverse / inverse.sum())
    return weights.float()
