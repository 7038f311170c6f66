"""Saves a model's folder whole or not at all, also for Pyserini's `AnceQueryEncoder`; reads its spec back."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from hardneg.encoders.families.adapters.adapter_source import noted
from hardneg.encoders.families.adapters.layers import has_adapter, merged
from hardneg.encoders.open.contract import OWN
from hardneg.encoders.open.loading import assembled, with_prompts
from hardneg.encoders.open.resolved import quiet
from hardneg.encoders.spec import SIDES, TOKEN_TYPES, FullSpec
from hardneg.encoders.tokens.tokens import with_token_type
from hardneg.encoders.towers import evaluating, route, transformers, twins
from hardneg.records.errors import ModelError
from hardneg.records.layout import SPEC_FILE
from hardneg.store.atomic_write import replacing_folder, system_errors

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from hardneg.encoders.encoder import Encoder


_READABLE = 0o444


def save_module(module: "SentenceTransformer", spec: FullSpec, folder: Path, card: str | None) -> None:
    """Writes the model, the part of `spec` that its modules lack, and the card; replaces `folder`."""
    with written_whole(folder) as draft, evaluating(module):
        whole = module
        if spec.typed:  # a tokenizer a side sets that side's token types wherever the model is opened
            parts = (with_token_type(route(module, side), spec.token_type(side)) for side in SIDES)
            typed = assembled([twins(*parts)], spec, str(module.device), type(module))
            whole = with_prompts(typed, module.prompts, module.default_prompt_name)
        if spec.adapter is not None and spec.adapter.save == "merged" and has_adapter(whole):
            whole = merged(whole)
        for transformer in transformers(whole):
            forget_last_call(transformer.tokenizer)
        whole.save(str(draft), create_model_card=False, safe_serialization=True)
        options = {name: getattr(spec, name) for name in (*OWN, *(TOKEN_TYPES if spec.typed else ()))}
        options |= {} if spec.adapter is None else {"adapter": noted(spec.adapter)}
        (draft / SPEC_FILE).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
        if card is not None:
            (draft / "README.md").write_text(card, encoding="utf-8")


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """A folder to write a model's files in, which replaces `folder` at the end of the block, whole and on disk.

    Raises:
        ModelError: the folder cannot be written.
    """
    try:
        with replacing_folder(folder) as draft, quiet(), system_errors():
            yield draft
            # safetensors writes for the owner alone: every file gets the read permissions of the folder
            for path in draft.rglob("*"):
                if path.is_file():
                    path.chmod(path.stat().st_mode | (draft.stat().st_mode & _READABLE))
    except OSError as error:
        raise ModelError(f"model {folder} cannot be written ({error}): check disk and permissions") from error


def forget_last_call(tokenizer: Any) -> None:
    """Removes the truncation and padding of the last call from a tokenizer, which would save them, and code's names."""
    getattr(tokenizer, "init_kwargs", {}).pop("auto_map", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()


DIMENSION = 768
QUERY_LENGTH = 64
"""How many tokens of a query Pyserini reads."""

_ANCE_WEIGHTS = "pytorch_model.bin"  # Pyserini for transformers 5 looks for this name alone
_ANCE = "ance_encoder"


def export_ance(encoder: "Encoder", folder: Path) -> None:
    """Writes the encoder of queries with the names of `pyserini.encode.AnceEncoder`; replaces `folder`.

    Source: the architecture of Xiong et al., Approximate Nearest Neighbor Negative Contrastive Learning for Dense Text
    Retrieval (ICLR 2021), appendix A.1.

    Raises:
        ModelError: the model is of another architecture, or the folder cannot be written.
    """
    _check_ance(encoder)
    transformer, _, dense, norm = encoder.parts("query")
    named = {"roberta": transformer.model, "embeddingHead": dense.linear, "norm": norm.norm}
    weights: dict[str, Tensor] = {
        f"{_ANCE}.{name}.{inner}": tensor.detach().cpu().contiguous()
        for name, module in named.items()
        for inner, tensor in module.state_dict().items()
    }
    with written_whole(folder) as draft:
        forget_last_call(transformer.tokenizer)
        transformer.model.config.save_pretrained(draft)
        transformer.tokenizer.save_pretrained(draft)
        transformer.tokenizer.backend_tokenizer.model.save(str(draft))  # vocab.json and merges.txt, for transformers 4
        torch.save(weights, draft / _ANCE_WEIGHTS)


def _check_ance(encoder: "Encoder") -> None:
    transformer, *rest = encoder.parts("query")
    architecture, names = transformer.model.config.model_type, [type(part).__name__ for part in rest]
    lacking = [] if architecture == "roberta" else [f"a RoBERTa, and it is a {architecture}"]
    head = names == ["Pooling", "Dense", "LayerNorm"]
    if head:
        pooling, (linear, activation), norm = rest[0], (rest[1].linear, rest[1].activation_function), rest[2].norm
        head = pooling.pooling_mode == "cls" and isinstance(activation, torch.nn.Identity) and norm.eps == 1e-5
        head = head and linear.out_features == DIMENSION and linear.bias is not None
    if not head:
        lacking.append(f"pooling cls, projection {DIMENSION}, layer_norm true and similarity dot")
    if encoder.spec.query_prompt:
        lacking.append("no query_prompt")
    if lacking:
        raise ModelError(f"model {encoder.spec.name!r} is no ANCE encoder: that has " + "; ".join(lacking))
