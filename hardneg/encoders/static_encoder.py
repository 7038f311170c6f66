"""An encoder whose network is a table: opened, made of a transformer's, and its tokens looked up and averaged."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from hardneg.encoders import tokens, towers
from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open import loading, model_files
from hardneg.encoders.open.contract import UNBOUNDED
from hardneg.encoders.spec import SIDES, FullSpec, Side
from hardneg.encoders.tokens import SegmentTokens, Tokens
from hardneg.formats.segments import Segments
from hardneg.records import ModelError
from hardneg.runtime import SEED, generator

if TYPE_CHECKING:
    from hardneg.encoders.families import Static
    from hardneg.encoders.open.contract import TableFiles
    from hardneg.encoders.open.resolved import ResolvedModel

_NAMES = ("word_embeddings", "word_embedding", "embed_tokens", "tok_embeddings", "wte", "shared")


class StaticEncoder(Encoder):
    """A `StaticEmbedding` of sentence-transformers, one for both sides or one each."""

    def parts(self, side: Side) -> list[Any]:
        """The modules of a side, with a table for padded texts."""
        table, *rest = super().parts(side)
        return [Bag(table.embedding), *rest]

    def tokenise(self, texts: Sequence[str], side: Side) -> Tokens:
        """The token ids of the texts with their side's prompt, without special tokens; an empty text has no token.

        Of each text its side's length is kept, at the end that the tokenizer's own truncation keeps.
        """
        tokenizer, prompt = towers.route(self.module, side)[0].tokenizer, self.spec.prompt(side)
        left = (tokenizer.truncation or {}).get("direction") == "left"
        whole = tokens.own_backend(tokenizer, tokenizer).ids([prompt + text for text in texts])
        ids, offsets = tokens.cut(whole, self.spec.length(side), left)
        return Tokens({"input_ids": ids}, offsets, {}, False, 0, {"attention_mask": 1})

    def segment(self, texts: Sequence[str], cut: Segments) -> SegmentTokens:
        """The documents with their prompt, cut into segments of any length. Raises ModelError: these are too short."""
        from tokenizers import Tokenizer
        from tokenizers.processors import TemplateProcessing
        from transformers import PreTrainedTokenizerFast

        backend = Tokenizer.from_str(towers.route(self.module, "document")[0].tokenizer.to_str())
        backend.no_truncation()
        backend.post_processor = TemplateProcessing(single="$A", special_tokens=[])
        plain = PreTrainedTokenizerFast(tokenizer_object=backend)
        return tokens.tokenise_segments(plain, texts, cut, self.spec.prompt("document"))


class Bag(nn.Module):
    """The mean of the vectors of each text's tokens; that of a text without tokens is 0."""

    def __init__(self, embedding: nn.EmbeddingBag) -> None:
        super().__init__()
        self.embedding = embedding

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Adds `sentence_embedding` [n, d] to features with `input_ids` and `attention_mask`, int64 [n, longest]."""
        mask = features["attention_mask"].bool()
        lengths = mask.sum(1)
        features["sentence_embedding"] = self.embedding(features["input_ids"][mask], lengths.cumsum(0) - lengths)
        return features


def open_static(model: "ResolvedModel", files: "TableFiles", device: str | None) -> StaticEncoder:
    """The static model of a folder, by its spec. Raises ModelError: it is not whole, or does not support the spec."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer

    for folder in {path.parent for path in files.weights}:
        model_files.load_options(folder)  # refuses anything but tensors
    if files.modules:
        whole = SentenceTransformer(str(files.folder), device="cpu", trust_remote_code=False, local_files_only=True)
        modules = list(whole.float().children())
    else:
        modules = [StaticEmbedding(Tokenizer.from_file(str(files.tokenizer)), embedding_weights=read_table(files))]
    encoder = _encoder(modules, model.full, device)
    loading.with_prompts(encoder.module, model.contract.prompts, model.contract.default_prompt_name)
    return encoder


def make_static(model: "ResolvedModel", options: "Static", device: str | None) -> StaticEncoder:
    """A static model of a transformer's token table. Raises ModelError: there is none, or the folder does not open."""
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from transformers import AutoTokenizer

    spec, folder = model.full, model.path
    tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True, trust_remote_code=False)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise ModelError(f"model {spec.name!r} has a slow tokenizer: name a model with a tokenizer.json")
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
    whole = nn.Sequential(*modules)
    sides = {side: towers.route(whole, side) for side in SIDES}
    longest = max(spec.length(side) for side in SIDES)
    for table, *_ in sides.values():
        loading.check_tokenizer(table.tokenizer, table.num_embeddings, spec.name)
        if longest < UNBOUNDED:  # truncates at the same end as before
            direction = (table.tokenizer.truncation or {}).get("direction", "right")
            table.tokenizer.enable_truncation(longest, direction=direction)
        else:
            table.tokenizer.no_truncation()
    if towers.has_twins(whole):
        arranged = [towers.twins(*(loading.with_head(sides[side], spec) for side in SIDES))]
    else:
        arranged = loading.with_head(modules, spec)
        arranged = [towers.twins(towers.with_own_queries(arranged), arranged)] if spec.twins else arranged
    return StaticEncoder(loading.assembled(arranged, spec, device), spec)


def read_table(files: "TableFiles") -> Tensor:
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


def word_embeddings(folder: Path) -> Tensor:
    """float32 [V, d], a transformer's own token table, and no other weights. Raises ModelError: there is none."""
    for path in model_files.weight_files(folder):
        for name, tensor in _named(path):
            if name.endswith(tuple(f"{word}.weight" for word in _NAMES)) and tensor.dim() == 2:
                return tensor.float().contiguous()
    raise ModelError(f"model {folder}: no token table in its weights: name another model, or leave encoder out")


def _named(path: Path) -> Iterator[tuple[str, Tensor]]:
    """Yields the tensors of a file by name, one at a time."""
    if path.suffix == ".safetensors":
        from safetensors import safe_open

        with safe_open(path, framework="pt") as file:
            yield from ((name, file.get_tensor(name)) for name in file.keys())  # noqa: SIM118
        return
    model_files.load_options(path.parent)  # refuses what is not tensors alone
    yield from torch.load(path, map_location="cpu", weights_only=True).items()


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
