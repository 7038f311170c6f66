"""Token vectors of a late-interaction encoder: its modules, their output, and MaxSim.

A tensor of texts is float [n, T, d + 1]: the last number of each token's vector is 1 if the token is scored, else 0.
"""

import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from hardneg.plugin import (
    Corpus,
    encoders,
    encoding,
    errors,
    loading,
    model_specs,
    resolving,
    runtime,
    token_files,
    towers,
)
from hardneg_multi_vector.family import SIDES
from hardneg_multi_vector.store import OFFSETS, TokenVectors, TokenWriter

if TYPE_CHECKING:
    from hardneg_multi_vector.family import LateInteraction

EXPANDED = "query_expansion_positions"
"""The sentence-transformers feature that marks the positions of a query expansion."""
_SCORED, _TOKENS = "MultiVectorMask", "token_embeddings"
_KNOWN = {"Dense", _SCORED, "Normalize"}


def load(options: "LateInteraction", model: resolving.ResolvedModel, device: str | None, precision: Any) -> Any:
    """Load a folder of any supported format as a sentence-transformers `MultiVectorEncoder` in evaluation mode.

    precision: precision for encoding; None loads the model for training.

    Raises ModelError if the files are not a complete model, or the model does not support the spec.
    """
    from sentence_transformers import MultiVectorEncoder

    interaction = options.interaction(model.files, model.contract)
    spec, folder = model.full, model.files.path
    if interaction.form:  # sentence-transformers reads older formats too
        parts = list(loading.library_model(MultiVectorEncoder, folder).children())
    else:  # only the transformer of a model trained for other tasks
        parts = towers.route(nn.Sequential(*loading.read_modules(folder)), "document")[:1]
    loading.check_sound(parts, folder, spec)
    whole = nn.Sequential(*parts)
    for side in SIDES:
        _check_known(towers.route(whole, side)[1:], spec.name)
    if spec.adapter is not None:
        loading.adapters.put_adapters(whole, spec, model.location, learns=precision is None)
    if towers.has_twins(whole):
        modules = [towers.twins(*(_one_side(towers.route(whole, side), options) for side in SIDES))]
    else:
        modules = _one_side(parts, options)
    whole = nn.Sequential(*modules)
    queries = towers.route(whole, "query")[0]
    expansion, queries.query_expansion = queries.query_expansion or {}, None  # lengths are checked against it
    for first in towers.transformers(whole):
        towers.hold_in(first.model, loading.weights_dtype(spec, precision))
    assembly = loading.assembled(modules, spec, device, MultiVectorEncoder)
    module = loading.with_prompts(assembly, interaction.prompts, None)
    if filled := options.filled(interaction):
        strategy = "fixed" if filled == spec.query_length else "min"
        queries.query_expansion = {**expansion, "strategy": strategy, "length": filled}
    return module


def _check_known(rest: Sequence[Any], model: str) -> None:
    """Raise ModelError if there are unsupported modules after the transformer."""
    if others := [name for part in rest if (name := type(part).__name__) not in _KNOWN]:
        raise errors.ModelError(f"model {model!r} has {', '.join(others)} after its transformer; use another model")
    names = [getattr(part, name, None) for part in rest for name in ("module_input_name", "module_output_name")]
    if odd := [name for name in names if name not in (None, _TOKENS)]:
        raise errors.ModelError(f"model {model!r}: its modules use {odd[0]!r} instead of {_TOKENS}; use another model")
    if any(getattr(part, "keep_only_token_ids", None) for part in rest):
        raise errors.ModelError(f"model {model!r} scores only image tokens; use another model")


def _one_side(parts: list[Any], options: "LateInteraction") -> list[nn.Module]:
    """Return the transformer, the projection of its vectors, the mask of scored tokens, and the normalisation."""
    from sentence_transformers.base.modules import Normalize
    from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask

    transformer, *rest = parts
    of_type = {name: [part for part in rest if type(part).__name__ == name] for name in _KNOWN}
    heads, masks, norms = of_type["Dense"], of_type[_SCORED], of_type["Normalize"]
    if options.dimension is not None:
        heads = [_projection(transformer, options.dimension)]
    words = list(string.punctuation) if options.skiplist == "punctuation" else []
    masks = masks if masks and options.skiplist == "own" else [MultiVectorMask(skiplist_words=words)]
    normalised = options.normalise if options.normalise is not None else bool(norms) or len(parts) == 1
    return [transformer, *heads, *masks, *([Normalize(module_input_name="token_embeddings")] if normalised else [])]


def _projection(transformer: Any, dimension: int) -> nn.Module:
    """Create a linear layer without bias and with random orthonormal rows.

    Up to noise, it scales all inner products of token vectors by the same factor, so that an untrained projection ranks
    about as well as no projection.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020), section 3.2.
    """
    from sentence_transformers.base.modules import Dense

    size = int(transformer.get_embedding_dimension())
    if dimension > size:
        raise errors.ModelError(f"encoder.dimension is {dimension}, but token vectors have {size} dimensions; lower it")
    draws = torch.Generator().manual_seed(runtime.derive_seed(0, "token projection", size, dimension) >> 1)
    weight = torch.linalg.qr(torch.randn(size, dimension, generator=draws)).Q.T.contiguous()
    options = {"activation_function": nn.Identity(), "init_weight": weight, "module_input_name": _TOKENS}
    dense: nn.Module = Dense(size, dimension, bias=False, **options)
    return dense


def expanded(tokens: token_files.Tokens, tokenizer: Any, options: Mapping[str, Any]) -> token_files.Tokens:
    """Pad queries on the tokenizer's padding side. options: a sentence-transformers `query_expansion` setting.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020), section 3.2, query augmentation.
    """
    token = tokenizer.eos_token_id if tokenizer.mask_token_id is None else tokenizer.mask_token_id
    if options["token"] is not None:
        token = tokenizer.convert_tokens_to_ids(options["token"])
    missing = np.maximum(int(options["length"]) - tokens.lengths, 0)
    values = {"input_ids": int(token), "attention_mask": int(bool(options["attend"])), EXPANDED: 1}
    other = {name for name, value in tokens.same.items() if value != values.get(name, 0)}
    size = int(tokens.offsets[-1])
    columns = {name: np.full(size, tokens.same[name], np.int32) for name in other}
    columns |= {EXPANDED: np.zeros(size, np.int32), **tokens.columns}
    beside = np.repeat(tokens.offsets[:-1] if tokens.left else tokens.offsets[1:], missing)
    return replace(
        tokens,
        columns={name: np.insert(column, beside, values.get(name, 0)) for name, column in columns.items()},
        offsets=tokens.offsets + np.concatenate([[0], np.cumsum(missing)]),
        same={name: value for name, value in tokens.same.items() if name not in other},
    )


def maxsim(queries: Tensor, documents: Tensor, mean: bool = False) -> Tensor:
    """Compute MaxSim: the sum over query tokens of the largest inner product with a document token.

    Each query token's gradient reaches only the best document token. Documents without scored tokens score far below
    all others.

    Source: Khattab and Zaharia, ColBERT (SIGIR 2020), Eq. 3.

    queries: [B, q, d + 1]. documents: [D, t, d + 1]. mean: whether to divide each score by the number of query tokens.
    Returns float32 [B, D].
    """
    from sentence_transformers.util import maxsim as of_all

    with torch.autocast(queries.device.type, enabled=False):
        (ours, mine), (theirs, there) = ((each[..., :-1].float(), each[..., -1] > 0) for each in (queries, documents))
        scores: Tensor = of_all(ours, theirs, a_mask=mine, b_mask=there, length_normalize=mean)
        return scores


@dataclass(frozen=True, eq=False)
class TokenRows:
    """The documents of a corpus; offsets: int64 [N + 1], the start of each document's vectors, then the total."""

    corpus: Corpus
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.corpus)

    @property
    def doc_ids(self) -> Sequence[str]:
        """The id of each document."""
        return self.corpus.doc_ids

    def blocks(self, start: int, stop: int, size: int) -> Iterator[Sequence[str]]:
        """Return the texts of documents `start` to `stop` (exclusive), `size` at a time."""
        return self.corpus.blocks(start, stop, size)


@dataclass(frozen=True)
class VectorAToken(encoders.Representation):
    """One vector per scored token, float32 [n, T, d + 1] on the device. mean: whether to average over query tokens."""

    mean: bool = False
    form: ClassVar[encoding.Form] = "token-vectors"
    files: ClassVar[Sequence[str]] = ("index", "docid", OFFSETS)
    block: ClassVar[int] = 1024

    def expanded(self, tokens: token_files.Tokens, transformer: Any) -> token_files.Tokens:
        """Pad query tokens as the transformer's query expansion declares, if it has one."""
        options = getattr(transformer, "query_expansion", None)
        return tokens if options is None else expanded(tokens, transformer.tokenizer, options)

    def run(
        self, parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: model_specs.Side
    ) -> Tensor:
        """Encode a batch as token vectors, float32 [n, T, d + 1], with zeros for tokens that are not scored."""
        features = towers.forward(parts, features, device, side)
        vectors, scored = features["token_embeddings"], features["attention_mask"]
        kept = scored.to(vectors.dtype)[..., None]
        return torch.cat([vectors.masked_fill(~scored.bool()[..., None], 0), kept], dim=-1)

    def gathered(self, batches: Any, count: int, dimension: int) -> TokenVectors:
        """Copy `count` encoded texts from batches to the host, in row order and without padding."""
        vectors: list[NDArray[np.float32]] = [np.empty((0, dimension), np.float32)] * count
        for rows, tensor in batches:
            part = self.collect(tensor)
            for row, start, stop in zip(rows.tolist(), part.offsets[:-1], part.offsets[1:], strict=True):
                vectors[row] = part.vectors[start:stop]
        offsets = np.cumsum([0, *map(len, vectors)], dtype=np.int64)
        return TokenVectors(offsets, np.concatenate([np.empty((0, dimension), np.float32), *vectors]))

    def collect(self, tensor: Tensor) -> TokenVectors:
        """Copy the vectors of scored tokens to the host as float32, without padding."""
        there = tensor[..., -1] > 0
        offsets = torch.cat([there.new_zeros(1, dtype=torch.int64), there.sum(1).cumsum(0)])
        return TokenVectors(offsets.cpu().numpy(), tensor[..., :-1][there].float().cpu().numpy())

    def tensor(self, encoded: TokenVectors, device: torch.device) -> Tensor:
        """Copy token vectors to a tensor, float32 [n, T, d + 1], padded with zeros to the longest text."""
        lengths = torch.from_numpy(encoded.offsets).diff()
        there = torch.arange(int(lengths.max()) if len(lengths) else 0) < lengths[:, None]
        vectors = torch.from_numpy(encoded.vectors).to(device)
        tensor = vectors.new_zeros(*there.shape, vectors.shape[1] + 1)
        tensor[there.to(device)] = torch.cat([vectors, vectors.new_ones(len(vectors), 1)], dim=1)
        return tensor

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None) -> Tensor:
        """Compute MaxSim, float32 [B, M]; a document with several `columns` is scored once."""
        scores = maxsim(queries, documents, self.mean)
        return scores if columns is None else scores[:, columns]

    def score_lists(self, queries: Tensor, encoded: TokenVectors) -> Tensor:
        """Compute MaxSim of each of B queries with its own M documents, float32 [B, M]."""
        documents = self.tensor(encoded, queries.device)
        lists = documents.view(len(queries), -1, *documents.shape[1:])
        return torch.cat([maxsim(query[None], own, self.mean) for query, own in zip(queries, lists, strict=True)])

    def rows(
        self, encoder: Any, corpus: Corpus, folder: Path, progress: runtime.Progress, here: runtime.World
    ) -> TokenRows:
        """Return the documents with the offsets of their scored tokens; all processes share the work of counting."""
        mask = next(part for part in encoder.parts("document") if hasattr(part, "skiplist_words"))

        def count(texts: Sequence[str]) -> NDArray[np.int64]:
            tokens = encoder.tokenise(texts, "document")
            ids = torch.from_numpy(tokens.columns["input_ids"]).long()
            kept = mask({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, task="document")["attention_mask"]
            before = np.concatenate([[0], np.cumsum(kept.numpy(), dtype=np.int64)])
            counts: NDArray[np.int64] = np.diff(before[tokens.offsets])
            return counts

        counts = self.count_rows(corpus, "tokens", count, folder, progress, here)
        return TokenRows(corpus, np.concatenate([[0], np.cumsum(counts)]))

    def writer(self, folder: Path, rows: TokenRows, dimension: int) -> TokenWriter:
        """Return a writer that stores the token vectors and their offsets in `folder`."""
        return TokenWriter(folder, dimension, rows.offsets)
