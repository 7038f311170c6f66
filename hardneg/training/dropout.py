"""Dropout on a CPU, from a generator that is many times as fast as torch's."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from hardneg.training.options import LearningOptions

_LEVELS = 1 << 16  # a draw is one of so many numbers: a share of 0.1 is 0.10001


def dropout_of(options: LearningOptions, device: torch.device) -> AbstractContextManager[Any]:
    """Return the context of forward passes in which dropout is drawn by the options."""
    return FastDropout() if options.passes == "by_length" and device.type == "cpu" else nullcontext()


class FastDropout(TorchFunctionMode):
    """Inside, dropout of tensors on a CPU is drawn from SFC64, 16 bits a number; torch's generator gives the seed.

    So it depends on torch's state alone, which it moves by one draw, whenever it is entered. torch's own draws take as
    long as the products of a small transformer in bfloat16. Attention with dropout is computed here too, for torch
    has no fast kernel for it and goes through float32; its scores keep the precision that they come in.

    Backward passes run outside: what computes activations again in them would draw otherwise.
    """

    def __enter__(self) -> Any:
        self._bits = np.random.SFC64(int(torch.randint(2**62, ())))
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Iterable[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Call the function, or its replacement."""
        options = dict(kwargs or {})
        if func is functional.dropout:
            return self._dropout(func, *args, **options)
        if func is functional.scaled_dot_product_attention and options.get("dropout_p", 0.0) > 0:
            return self._attention(func, *args, **options)
        return func(*args, **options)

    def _dropout(
        self, func: Callable[..., Any], input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
    ) -> Any:
        if not training or inplace or not 0 < p < 1 or input.device.type != "cpu":
            return func(input, p, training, inplace)
        return input * self._kept(input, p)

    def _attention(self, func: Callable[..., Any], query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Any:
        if query.device.type != "cpu" or options.get("is_causal") or options.get("enable_gqa"):
            return func(query, key, value, **options)
        scale = options.get("scale")
        with torch.autocast("cpu", enabled=False):
            scores = query * (query.shape[-1] ** -0.5 if scale is None else scale) @ key.transpose(-1, -2)
            weights = _masked(scores, options.get("attn_mask")).softmax(-1)
            return (weights * self._kept(weights, options["dropout_p"])) @ value

    def _kept(self, like: Tensor, p: float) -> Tensor:
        """0 for the share `p`, and what makes up for it elsewhere; of the same shape and type."""
        count, dropped = like.numel(), min(max(round(p * _LEVELS), 1), _LEVELS - 1)
        drawn = self._bits.random_raw(-(-count // 4)).view(np.int16)[:count]
        kept = torch.from_numpy(drawn).view(like.shape) >= dropped - _LEVELS // 2
        return kept.to(like.dtype).mul_(_LEVELS / (_LEVELS - dropped))


def _masked(scores: Tensor, mask: Tensor | None) -> Tensor:
    """Scores where a mask, of booleans or to be added, leaves them; a row without any has equal ones."""
    if mask is None:
        return scores
    if mask.dtype == torch.bool:
        return scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return scores + mask.to(scores.dtype)
