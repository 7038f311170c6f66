"""Turns a spec into a SentenceTransformer whose modules are as the spec says."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import nn

from hardneg.models.contract import read_contract
from hardneg.models.files import check_activations, sides
from hardneg.models.modules import quiet, read_modules
from hardneg.models.projection_head import arrange
from hardneg.models.segment_ids import check_token_types, joined
from hardneg.models.soundness import check_encoder, check_tokenizer, check_weights
from hardneg.models.spec import KINDS, FullSpec
from hardneg.models.towers import check_sides, has_twins, side, transformers, twins, with_own_queries

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def load_module(
    spec: FullSpec, folder: Path, device: str | None = None, dtype: torch.dtype = torch.float32
) -> "SentenceTransformer":
    """The model in a folder as the spec says, with prompts and lengths set, in evaluation mode.

    dtype: of the transformer's weights; all that comes behind it is float32.

    Raises:
        ModelError: the files are not those of one whole model, or it cannot do what the spec says.
    """
    check_activations(folder)
    modules = read_modules(folder, spec, dtype)
    check_sides(modules, spec.name)
    _check_sound(modules, folder, spec)
    modules = joined(modules) if spec.typed else modules
    contract = read_contract(folder)
    module = assembled(_arranged(modules, spec), spec, device)
    return with_prompts(module, contract.prompts, contract.default_prompt_name)


def _check_sound(modules: list[nn.Module], folder: Path, spec: FullSpec) -> None:
    whole, places = nn.Sequential(*modules), sides(folder)
    for kind in KINDS:
        transformer = side(whole, kind)[0]
        check_encoder(transformer, spec)
        check_tokenizer(transformer, spec.name)
        with quiet():
            check_weights(transformer.model, places[kind][0], spec.name)


def _arranged(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    whole = nn.Sequential(*modules)
    for transformer in transformers(whole):
        check_token_types(transformer, spec)
    if has_twins(whole):
        return [twins(arrange(side(whole, "query"), spec), arrange(side(whole, "document"), spec))]
    arranged = arrange(modules, spec)
    return [twins(with_own_queries(arranged), arranged)] if spec.twins else arranged


def assembled(modules: list[nn.Module], spec: FullSpec, device: str | None) -> "SentenceTransformer":
    """The modules as one model with the spec's prompts, lengths and similarity, in evaluation mode."""
    from sentence_transformers import SentenceTransformer

    with _unrounded(modules[1:]):
        module = SentenceTransformer(
            modules=modules,
            device=device,
            prompts={"query": spec.query_prompt, "document": spec.document_prompt},
            similarity_fn_name=spec.similarity,
            truncate_dim=spec.truncate_dim,
        )
    for kind in KINDS:
        side(module, kind)[0].max_seq_length = spec.length(kind)  # of documents, where they share one
    for first in transformers(module):
        shorter = spec.query_length if first.max_seq_length != spec.query_length and not has_twins(module) else None
        first.query_length, first.document_length = shorter, None
    return module.eval()


@contextmanager
def _unrounded(parts: list[nn.Module]) -> Iterator[None]:
    """Puts back, in float32, the weights that SentenceTransformer rounds to the dtype of the transformer's."""
    weights = [part.state_dict() for part in parts]
    yield
    for part, kept in zip(parts, weights, strict=True):
        part.float().load_state_dict(kept)


def with_prompts(
    module: "SentenceTransformer", others: Mapping[str, str], default: str | None
) -> "SentenceTransformer":
    """The model with prompts of other names beside those that it has."""
    module.prompts = {**others, **module.prompts}
    module.default_prompt_name = default
    return module
