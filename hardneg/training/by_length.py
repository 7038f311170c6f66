"""Passes over texts of about equal length, so that a short text is not padded to the longest one of its batch."""

from collections.abc import Callable

import torch
from torch import Tensor

Features = dict[str, Tensor]


def by_length(embed: Callable[[Features], Tensor], features: Features, size: int) -> Tensor:
    """What `embed` makes of the features, `size` texts a pass, the longest first; in the order of the features.

    features: tensors [n, longest text] with an `attention_mask`, padded on either side, or values of each text [n];
    without a mask nothing is padded, and there is one pass.
    The result is that of one pass but for the rounding of floats, and for dropout, which draws pass by pass.
    """
    if "attention_mask" not in features:
        return embed(features)
    order = features["attention_mask"].sum(1).argsort(descending=True, stable=True)
    if len(order) <= size:
        return embed(features)
    parts = ({name: value[rows] for name, value in features.items()} for rows in torch.split(order, size))
    passes = [embed(_unpadded(part)) for part in parts]
    back = order.argsort()
    return torch.cat(passes)[back.to(passes[0].device)]


def _unpadded(features: Features) -> Features:
    """Without the columns that are padding in all texts."""
    used = features["attention_mask"].any(0)
    return {name: value[:, used] if value.dim() > 1 else value for name, value in features.items()}
