"""Passes over texts of about equal length, so that a short text is not padded to the longest one of its batch."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Features = dict[str, Tensor]


@dataclass(frozen=True, slots=True)
class Parts:
    """Features of n texts in parts; place: int64 [n], where each text is among all parts', none where there is one."""

    features: list[Features]
    place: Tensor | None

    def join(self, vectors: Sequence[Tensor]) -> Tensor:
        """[n, d], in the order of the texts, from the vectors of each part."""
        return vectors[0] if self.place is None else torch.cat(list(vectors))[self.place.to(vectors[0].device)]


def in_parts(features: Features, size: int) -> Parts:
    """Parts of `size` texts, the longest first, each without the columns that are padding in all of its texts.

    features: tensors [n, longest text] with an `attention_mask`, padded on either side, or values of each text [n];
    without a mask nothing is padded, and there is one part.
    """
    if "attention_mask" not in features or len(features["attention_mask"]) <= size:
        return Parts([features], None)
    order = features["attention_mask"].sum(1).argsort(descending=True, stable=True)
    parts = ({name: value[rows] for name, value in features.items()} for rows in torch.split(order, size))
    return Parts([_unpadded(part) for part in parts], order.argsort())


def by_length(embed: Callable[[Features], Tensor], features: Features, size: int) -> Tensor:
    """What `embed` makes of the features, a pass for each of their `in_parts`; in the order of the features.

    The result is that of one pass but for the rounding of floats, and for dropout, which draws pass by pass.
    """
    parts = in_parts(features, size)
    return parts.join([embed(part) for part in parts.features])


def _unpadded(features: Features) -> Features:
    """Without the columns that are padding in all texts."""
    used = features["attention_mask"].any(0)
    return {name: value[:, used] if value.dim() > 1 else value for name, value in features.items()}
