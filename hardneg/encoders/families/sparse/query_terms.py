"""Queries that no network reads: a query's own terms, each with one weight for all queries."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardneg.encoders.open.model_files import json_object, module_folders
from hardneg.encoders.spec import FullSpec
from hardneg.records.errors import ModelError


def query_terms(tokenizer: Any, spec: FullSpec, own: Any = None) -> nn.Module:
    """A module of sentence-transformers that gives the terms of a text their weights: those of `own`, or 1 each.

    Its tokenizer adds no special tokens and cuts at the length of queries, wherever the model is opened.
    """
    from sentence_transformers.sparse_encoder.modules import SparseStaticEmbedding

    weight = torch.ones(len(tokenizer)) if own is None else own.weight.detach().clone()
    frozen = False if own is None else own.frozen
    module: nn.Module = SparseStaticEmbedding(_plain(tokenizer if own is None else own.tokenizer, spec), weight, frozen)
    return module


def check_query_terms(folder: Path) -> None:
    """Refuses weights of query terms outside of the model's folder."""
    for path, class_name in module_folders(folder).items():
        if class_name == "SparseStaticEmbedding" and (outside := json_object(path / "config.json").get("path")):
            raise ModelError(f"model {path}: its weights are in another folder, {outside}: save them with the model")


def _plain(tokenizer: Any, spec: FullSpec) -> Any:
    """A copy of a tokenizer that puts nothing around a text."""
    from tokenizers import Tokenizer
    from tokenizers.processors import TemplateProcessing
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.post_processor = TemplateProcessing(single="$A", special_tokens=[])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        model_max_length=spec.query_length,
        padding_side=tokenizer.padding_side,
        truncation_side=tokenizer.truncation_side,
        **tokenizer.special_tokens_map,
    )
