"""Gradient caching: a batch of any size in the memory that a part of it needs.

1. All parts are encoded, without a graph.
2. The loss of the whole batch gives each vector its gradient.
3. Each part is encoded once more, now with a graph, and its vectors' gradients go through it to the weights.

Source: Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup (RepL4NLP 2021), section 3.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from hardneg.encoders.spec import Side
from hardneg.training.batches import Features, Parts

Vectors = tuple[Tensor, ...]
_Pass = Callable[[], Vectors]


@dataclass(frozen=True, slots=True)
class Towers:
    """The encoder: of one side's texts, or of both; `context` makes the context of a pass.

    `both` may be wrapped for several processes. It is called once with a graph, at the end, as the wrapper expects, and
    then adds up the gradients that all parts have left; the other parts go past it.
    """

    one: Callable[[Features, Side], Tensor]
    both: Callable[[Features, Features], Vectors]
    context: Callable[[], AbstractContextManager[Any]]


def encode_twice(queries: Parts, documents: Parts, towers: Towers) -> tuple[Tensor, Tensor]:
    """The vectors of both sides, whose gradients go on to the weights part by part.

    Each part is encoded now, without a graph, and again when the gradients are there, with the same dropout.
    """
    sides: list[tuple[Parts, Side]] = [(queries, "query"), (documents, "document")]
    passes: list[_Pass] = [
        partial(lambda features, side: (towers.one(features, side),), features, side)
        for parts, side in sides
        for features in parts.features[:-1]
    ]
    passes.append(partial(towers.both, queries.features[-1], documents.features[-1]))
    first = int(torch.randint(2**62, ()))

    def with_seed(seed: int, encode: _Pass) -> Vectors:
        torch.manual_seed(seed)
        with towers.context():
            return encode()

    seeded = [partial(with_seed, first + number, encode) for number, encode in enumerate(passes)]
    *vectors, query, document = _Twice.apply(torch.empty(0, requires_grad=True), seeded)  # type: ignore[no-untyped-call]
    others = len(queries.features) - 1
    return queries.join([*vectors[:others], query]), documents.join([*vectors[others:], document])


class _Twice(torch.autograd.Function):
    """The first argument stands for the weights, so that autograd computes gradients."""

    @staticmethod
    def forward(ctx: Any, anchor: Tensor, passes: Sequence[_Pass]) -> Vectors:
        encoded = [encode() for encode in passes]
        ctx.passes, ctx.counts = passes, [len(vectors) for vectors in encoded]
        return tuple(part for vectors in encoded for part in vectors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[None, None]:
        waiting = iter(gradients)
        for encode, count in zip(ctx.passes, ctx.counts, strict=True):
            with torch.enable_grad():
                vectors = encode()
            torch.autograd.backward(vectors, list(islice(waiting, count)))
        return None, None
