"""Token types that distinguish queries from documents: set, checked, and kept in a saved tokenizer."""

import inspect
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from hardneg.encoders.spec import FullSpec
from hardneg.encoders.tokens.backend import backend_of
from hardneg.encoders.tokens.tokens import Tokens
from hardneg.encoders.towers import has_twins, route
from hardneg.records.errors import ModelError

_INPUTS = ["input_ids", "token_type_ids", "attention_mask"]
_COPIED = ("padding_side", "truncation_side", "model_max_length")


def typed(tokens: Tokens, token_type: int) -> Tokens:
    """The same tokens, each of one type."""
    others = {name: column for name, column in tokens.columns.items() if name != "token_type_ids"}
    return replace(tokens, columns=others, same={**tokens.same, "token_type_ids": token_type})


def check_token_types(transformer: Any, spec: FullSpec) -> None:
    """Refuses token types that a transformer has no embeddings for."""
    if not spec.typed:
        return
    model, instead = transformer.model, 'leave the token types out and set query_prompt: "query: " instead'
    taken = "token_type_ids" in inspect.signature(model.forward).parameters
    known = int(getattr(model.config, "type_vocab_size", 0) or 0) if taken else 0
    for field in ("query_token_type", "document_token_type"):
        if (token_type := getattr(spec, field)) >= max(known, 1):
            has = f"has {known} token types, counted from 0" if known else "has no token types"
            raise ModelError(f"model {spec.name!r} {has}: {field} is {token_type}; {instead}")
    if getattr(transformer.tokenizer, "backend_tokenizer", None) is None:
        raise ModelError(f"model {spec.name!r} has a slow tokenizer, which cannot keep token types: {instead}")


def joined(modules: list[nn.Module]) -> list[nn.Module]:
    """The modules of one side where both have equal weights, as in a saved model of two token types; else all."""
    whole = nn.Sequential(*modules)
    if not has_twins(whole):
        return modules
    document = route(whole, "document")
    theirs, ours = (nn.Sequential(*parts).state_dict() for parts in (route(whole, "query"), document))
    same = theirs.keys() == ours.keys() and all(torch.equal(theirs[name], ours[name]) for name in ours)
    return document if same else modules


def with_token_type(parts: Sequence[Any], token_type: int) -> list[Any]:
    """The modules of a side, the first a copy that shares its weights and has a tokenizer of one token type."""
    first, *rest = parts
    own = copy(first)
    own.processor = _of_one_type(first.tokenizer, token_type)
    return [own, *rest]


def _of_one_type(tokenizer: Any, token_type: int) -> Any:
    """The tokenizer with a template of one token type, in the class of transformers that keeps it as it is."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    frame = backend_of(tokenizer).frames[False]  # type: ignore[union-attr]
    before, after = ([tokenizer.convert_ids_to_tokens(token) for token, _ in beside] for beside in frame.around)
    special = [(name, tokenizer.convert_tokens_to_ids(name)) for name in dict.fromkeys([*before, *after])]
    single = [f"{name}:{token_type}" for name in (*before, "$A", *after)]
    backend.post_processor = TemplateProcessing(single=single, special_tokens=special)
    options = {name: getattr(tokenizer, name) for name in _COPIED}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_input_names=_INPUTS, **options, **tokenizer.special_tokens_map
    )
