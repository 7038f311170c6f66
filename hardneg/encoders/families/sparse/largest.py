"""The largest logit of each term over a text's tokens, without holding the logits of all tokens.

log(1 + relu(x)) rises with x, so the largest weight over tokens is that of the largest logit: the logarithm is taken
once a term, and a gradient goes to one token a term. The logits of a batch, a number for each token and term, would
take most of the time and memory of a small model.

Source: Formal et al., SPLADE v2 (arXiv 2109.10086), Eq. 6.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from hardneg.encoders.spec import Side
from hardneg.encoders.towers import forward

_TERMS = 1024  # whose logits are held at a time
_GRADIENTS = 1 << 16  # of single weights, whose products with vectors are held at a time
_PLAIN = {"bert", "distilbert", "roberta", "xlm-roberta", "camembert", "modernbert"}
"""Networks whose logits are what their output layer makes, and nothing more."""


def can_be_narrow(parts: Sequence[Any]) -> bool:
    """Whether the parts are a transformer with such an output layer, and SPLADE's pooling by the maximum."""
    first, *rest = parts
    config = getattr(getattr(first, "model", None), "config", None)
    pooled = bool(rest) and getattr(rest[0], "pooling_strategy", "") == "max"
    return pooled and getattr(config, "model_type", "") in _PLAIN


def narrow(parts: Sequence[Any], features: dict[str, Tensor], device: torch.device, side: Side) -> Tensor:
    """float32 [n, V], the weights of all terms, as the parts themselves would give them."""
    first, pooling, *rest = parts
    output = first.model.get_output_embeddings()
    with _passing(output):
        hidden = forward([first], features, device, side)
    with torch.autocast(device.type, enabled=False):
        weight, bias = output.weight.float(), None if output.bias is None else output.bias.float()
        vectors, there = hidden["token_embeddings"].float(), hidden["attention_mask"].bool()
        best: Tensor = _Largest.apply(vectors, there, weight, bias)  # type: ignore[no-untyped-call]
        weights = best.relu().log1p()
        out = {**hidden, "sentence_embedding": weights.log1p() if pooling.activation_function != "relu" else weights}
        for part in rest:
            out = part(out)
    return out["sentence_embedding"]


@contextmanager
def _passing(layer: nn.Module) -> Iterator[None]:
    """Makes the layer return its input."""
    layer.forward = lambda values: values
    try:
        yield
    finally:
        del layer.forward


class _Largest(torch.autograd.Function):
    """float32 [n, V] of token vectors [n, T, d], of which are tokens [n, T], weights [V, d] and biases [V]."""

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
