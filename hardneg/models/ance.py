"""A model as Pyserini's `AnceQueryEncoder` opens it."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hardneg.errors import ModelError
from hardneg.models.encoder import Encoder
from hardneg.models.save import forget_last_call, written_whole

DIMENSION = 768
QUERY_LENGTH = 64
"""How many tokens of a query Pyserini reads."""

_WEIGHTS = "pytorch_model.bin"  # Pyserini for transformers 5 looks for this name alone
_PREFIX = "ance_encoder"


def export_ance(encoder: Encoder, folder: Path) -> None:
    """Writes the encoder of queries with the names of `pyserini.encode.AnceEncoder`; replaces what was in `folder`.

    Source: the architecture of Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text
    Retrieval (ICLR 2021), appendix A.1.

    Raises:
        ModelError: the model is of another architecture, or the folder cannot be written.
    """
    _check(encoder)
    transformer, _, dense, norm = encoder.parts("query")
    named = {"roberta": transformer.model, "embeddingHead": dense.linear, "norm": norm.norm}
    weights: dict[str, Tensor] = {
        f"{_PREFIX}.{name}.{inner}": tensor.detach().cpu().contiguous()
        for name, module in named.items()
        for inner, tensor in module.state_dict().items()
    }
    with written_whole(folder) as place:
        forget_last_call(transformer.tokenizer)
        transformer.model.config.save_pretrained(place)
        transformer.tokenizer.save_pretrained(place)
        transformer.tokenizer.backend_tokenizer.model.save(str(place))  # vocab.json and merges.txt, for transformers 4
        torch.save(weights, place / _WEIGHTS)


def _check(encoder: Encoder) -> None:
    transformer, *rest = encoder.parts("query")
    kind, names = transformer.model.config.model_type, [type(part).__name__ for part in rest]
    lacking = [] if kind == "roberta" else [f"a RoBERTa, and it is a {kind}"]
    if names != ["Pooling", "Dense", "LayerNorm"] or not _is_head(*rest):
        lacking.append(f"pooling cls, projection {DIMENSION}, layer_norm true and similarity dot")
    if encoder.spec.query_prompt:
        lacking.append("no query_prompt")
    if lacking:
        raise ModelError(f"model {encoder.spec.name!r} is no ANCE encoder: that has " + "; ".join(lacking))


def _is_head(pooling: Any, dense: Any, norm: Any) -> bool:
    linear, identity = dense.linear, isinstance(dense.activation_function, torch.nn.Identity)
    sizes = linear.out_features == DIMENSION and linear.bias is not None
    return pooling.pooling_mode == "cls" and identity and sizes and norm.norm.eps == 1e-5
