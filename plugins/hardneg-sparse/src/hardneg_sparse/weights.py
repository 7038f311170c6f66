"""Term weights as the representation of a text: tensors, scores and storage.

Since log(1 + relu(x)) increases with x, a term's largest weight is that of the token with the largest logit. So the
logarithm is computed once per term, and the gradient of a term reaches one token. `narrow` never holds the logits of
all tokens and terms, which would dominate the time and memory of a small model.

Source: Formal et al., SPLADE v2 (arXiv 2109.10086), Eq. 6.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hardneg.plugin import encoders, encoding, model_specs, towers
from hardneg_sparse.store import FILES, TERMS, SparseRows, SparseWriter

_TERMS = 1024  # whose logits are in memory at a time
_GRADIENTS = 1 << 16  # of single weights, whose products with vectors are in memory at a time
_PLAIN = {"bert", "distilbert", "roberta", "xlm-roberta", "camembert", "modernbert"}
"""Networks with an output layer that computes the final logits."""


def can_be_narrow(parts: Sequence[Any]) -> bool:
    """Return whether `narrow` supports an encoder's parts: a network in `_PLAIN`, followed by max pooling."""
    first, *rest = parts
    config = getattr(getattr(first, "model", None), "config", None)
    pooled = bool(rest) and getattr(rest[0], "pooling_strategy", "") == "max"
    return pooled and getattr(config, "model_type", "") in _PLAIN


def narrow(parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: model_specs.Side) -> Tensor:
    """Compute the weights of all terms, float32 [n, V], as the parts would, but with less memory."""
    first, pooling, *rest = parts
    output = first.model.get_output_embeddings()
    output.forward = lambda values: values
    try:
        hidden = towers.forward([first], features, device, side)
    finally:
        del output.forward
    with torch.autocast(device.type, enabled=False):
        weight, bias = output.weight.float(), None if output.bias is None else output.bias.float()
        vectors, there = hidden["token_embeddings"].float(), hidden["attention_mask"].bool()
        best: Tensor = _Largest.apply(vectors, there, weight, bias)  # type: ignore[no-untyped-call]
        weights = best.relu().log1p()
        out = {**hidden, "sentence_embedding": weights.log1p() if pooling.activation_function != "relu" else weights}
        for part in rest:
            out = part(out)
    return out["sentence_embedding"]


class _Largest(torch.autograd.Function):
    """The largest logits, float32 [n, V], from token vectors [n, T, d], mask [n, T], weights [V, d], biases [V]."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, there: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        best = vectors.new_empty(len(vectors), len(weight))
        winners = torch.empty(best.shape, dtype=torch.int32, device=best.device)
        for start in range(0, len(weight), _TERMS):
            part = slice(start, start + _TERMS)
            logits = vectors @ weight[part].T
            logits.masked_fill_(~there[:, :, None], -torch.inf)
            best[:, part], token = logits.max(1)
            winners[:, part] = token
        ctx.save_for_backward(vectors, weight, winners)
        return best if bias is None else best + bias

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, Tensor, Tensor | None]:
        vectors, weight, winners = ctx.saved_tensors
        tokens, of_weight = vectors.flatten(0, 1), torch.zeros_like(weight)
        of_tokens = torch.zeros_like(tokens)
        for some in torch.split(gradient.nonzero(), _GRADIENTS):
            text, term = some.unbind(1)
            token = text * vectors.shape[1] + winners[text, term]
            share = gradient[text, term][:, None]
            of_tokens.index_add_(0, token, share * weight[term])
            of_weight.index_add_(0, term, share * tokens[token])
        bias = gradient.sum(0) if ctx.needs_input_grad[3] else None
        return of_tokens.view_as(vectors), None, of_weight, bias


@dataclass(frozen=True)
class TermWeights(encoders.Representation):
    """Texts as term weights: non-negative float32 [n, V] on the device, and `SparseRows` on the host.

    terms: the words of the V terms. most: how many of the largest weights to keep per encoded text; None keeps all.
    Training always keeps all, as in sentence-transformers.
    """

    form: ClassVar[encoding.Form] = "weights"
    files: ClassVar[Sequence[str]] = FILES

    terms: Sequence[str]
    most: int | None = None

    def run(
        self, parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: model_specs.Side
    ) -> Tensor:
        """Compute the weights of texts, float32 [n, V]."""
        if can_be_narrow(parts):
            return narrow(parts, features, device, side)
        return towers.forward(parts, features, device, side)["sentence_embedding"]

    def gathered(self, batches: Iterable[tuple[NDArray[np.int64], Tensor]], count: int, dimension: int) -> SparseRows:
        """Return `count` texts in row order from batches (rows, weights); only non-zero weights stay in memory."""
        parts = [(rows, self.collect(tensor)) for rows, tensor in batches]
        if not parts:
            return SparseRows(np.zeros(count + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), dimension)
        order = np.argsort(np.concatenate([rows for rows, _ in parts]), stable=True)
        return SparseRows.join([tensor for _, tensor in parts])[order]

    def collect(self, tensor: Tensor) -> SparseRows:
        """Copy the non-zero weights to the host; if `most` is set, only the `most` largest of each text."""
        from sentence_transformers.util import select_max_active_dims

        kept: Tensor = tensor.float() if self.most is None else select_max_active_dims(tensor.float(), self.most)
        text, term = torch.nonzero(kept, as_tuple=True)
        counts = torch.bincount(text, minlength=len(kept)).cpu().numpy()
        offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        weights = kept[text, term].cpu().numpy()
        return SparseRows(offsets, term.to(torch.int32).cpu().numpy(), weights, kept.shape[1])

    def tensor(self, encoded: SparseRows, device: torch.device) -> Tensor:
        """Copy the weights of texts to a tensor, float32 [n, V]."""
        text = np.repeat(np.arange(len(encoded)), np.diff(encoded.offsets))
        cells = (torch.from_numpy(text).to(device), torch.from_numpy(encoded.terms.astype(np.int64)).to(device))
        whole = torch.zeros((len(encoded), encoded.width), device=device)
        return whole.index_put_(cells, torch.from_numpy(encoded.weights).to(device))

    def score(self, queries: Tensor, documents: Tensor, columns: Tensor | None) -> Tensor:
        """Compute inner products [Q, M] without autocast; a document with several `columns` is scored once."""
        scores = super().score(queries, documents, None)
        return scores if columns is None else scores[:, columns]

    def score_lists(self, queries: Tensor, encoded: SparseRows) -> Tensor:
        """Compute inner products of each query with its own n of the Q * n texts, [Q, n], without a dense tensor."""
        text = torch.from_numpy(np.repeat(np.arange(len(encoded)), np.diff(encoded.offsets))).to(queries.device)
        term = torch.from_numpy(encoded.terms.astype(np.int64)).to(queries.device)
        weights, each = torch.from_numpy(encoded.weights).to(queries.device), len(encoded) // max(1, len(queries))
        with torch.autocast(queries.device.type, enabled=False):
            of_queries = queries.to(torch.promote_types(queries.dtype, torch.float32))
            products = of_queries[text.div(max(1, each), rounding_mode="floor"), term] * weights
            return products.new_zeros(len(encoded)).index_add(0, text, products).view(len(queries), each)

    def writer(self, folder: Path, rows: Any, dimension: int) -> SparseWriter:
        """Write the words of the terms to `folder`, unless present; return a writer for term weights."""
        writer = SparseWriter(folder, dimension, len(rows))
        if not (folder / TERMS).exists():
            writer.write_terms(self.terms)
        return writer
