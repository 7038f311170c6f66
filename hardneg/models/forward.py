"""One pass of features through the parts of a model."""

from collections.abc import Sequence
from copy import deepcopy

import torch
from torch import Tensor, nn


def forward(parts: Sequence[nn.Module], features: dict[str, Tensor], device: torch.device) -> Tensor:
    """float32 [n, dimension], whatever autocast is on; all parts behind the first run in float32."""
    out = {name: value.to(device, non_blocking=True) for name, value in features.items()}
    transformer, *rest = parts
    out = transformer(out)
    with torch.autocast(device.type, enabled=False):
        for name in out.keys() & {"token_embeddings", "sentence_embedding"}:
            out[name] = out[name].float()
        for part in rest:
            out = part(out)
    vectors: Tensor = out["sentence_embedding"]
    return vectors


class Cut(nn.Module):
    """Keeps the first dimensions of vectors, with norm 1 again where they are compared by their angle."""

    def __init__(self, dimension: int, normalised: bool) -> None:
        super().__init__()
        self.dimension, self.normalised = dimension, normalised

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """The features with shorter vectors, float32 [n, dimension]."""
        vectors = features["sentence_embedding"][:, : self.dimension]
        features["sentence_embedding"] = nn.functional.normalize(vectors, dim=-1) if self.normalised else vectors
        return features


def in_bfloat16(transformer: nn.Module) -> nn.Module:
    """A copy with bfloat16 weights; buffers, such as the frequencies of positions, stay as they are."""
    copied = deepcopy(transformer)
    for weight in copied.parameters():
        weight.data = weight.data.to(torch.bfloat16)
    return copied
