"""Turns a spec into a SentenceTransformer whose modules are as the spec says."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hardneg.errors import ModelError
from hardneg.models.files import check_files, module_folders
from hardneg.models.head import arrange
from hardneg.models.sides import check_sides, has_twins, side, transformers, twins, with_own_queries
from hardneg.models.source import fetch
from hardneg.models.spec import ModelSpec
from hardneg.models.token_types import check_token_types, joined
from hardneg.models.weights import load_options
from hardneg.seeding import derive_seed

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


def load_module(spec: ModelSpec, device: str | None = None) -> "SentenceTransformer":
    """The spec's model with float32 weights, prompts and lengths set, in evaluation mode.

    Raises:
        ModelError: the spec has mistakes, the model is not there, or it cannot do what the spec says.
    """
    if problems := spec.problems():
        raise ModelError(f"model {spec.name!r}: " + "; ".join(problems))
    folder = fetch(spec)
    check_files(folder)
    modules = _modules(folder, spec)
    check_sides(modules, spec.name)
    modules = joined(modules) if spec.typed else modules
    return assembled(_arranged(modules, spec), spec, device)


@contextmanager
def without_bars() -> Iterator[None]:
    """Keeps transformers from drawing progress bars."""
    from transformers.utils import logging as bars

    shown = bars.is_progress_bar_enabled()
    bars.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            bars.enable_progress_bar()


def _modules(folder: Path, spec: ModelSpec) -> list[nn.Module]:
    """The modules that the folder holds; weights that it lacks are drawn from a fixed seed."""
    from safetensors import SafetensorError

    with without_bars(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(0, "weights that the files lack") >> 1)
        try:
            if (folder / "modules.json").exists():
                return _own_modules(folder)
            return [_plain_transformer(folder)]
        except (OSError, ValueError, RuntimeError, ImportError, LookupError, SafetensorError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(f"model {spec.name!r} cannot be opened ({reason}): check {folder}") from error


def _own_modules(folder: Path) -> list[nn.Module]:
    from sentence_transformers import SentenceTransformer

    whole = SentenceTransformer(
        str(folder), device="cpu", trust_remote_code=False, local_files_only=True, model_kwargs=_weights(folder)
    )
    if whole.truncate_dim is not None:
        raise ModelError(
            f"model {folder}: cuts its vectors to {whole.truncate_dim} dimensions: "
            "remove truncate_dim from config_sentence_transformers.json"
        )
    return list(whole.children())


def _plain_transformer(folder: Path) -> nn.Module:
    from sentence_transformers.sentence_transformer.modules import Transformer

    local = {"local_files_only": True, "trust_remote_code": False}
    transformer: nn.Module = Transformer(
        str(folder),
        model_kwargs=_weights(folder) | local,
        processor_kwargs=dict(local),
        config_kwargs=dict(local),
        modality_config={"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        module_output_name="token_embeddings",
    )
    return transformer


def _weights(folder: Path) -> dict[str, Any]:
    options = {kind: load_options(place) for place, kind in module_folders(folder).items()}
    return {"dtype": torch.float32, **options.get("Transformer", {})}


def _arranged(modules: list[nn.Module], spec: ModelSpec) -> list[nn.Module]:
    whole = nn.Sequential(*modules)
    for transformer in transformers(whole):
        _check_encoder(transformer, spec)
        check_token_types(transformer, spec)
    if has_twins(whole):
        return [twins(arrange(side(whole, "query"), spec), arrange(side(whole, "document"), spec))]
    arranged = arrange(modules, spec)
    return [twins(with_own_queries(arranged), arranged)] if spec.twins else arranged


def _check_encoder(encoder: nn.Module, spec: ModelSpec) -> None:
    if getattr(encoder, "tokenizer", None) is None or getattr(encoder, "model", None) is None:
        raise ModelError(f"model {spec.name!r} does not begin with a transformer: use another model")
    kinds = getattr(encoder, "modality_config", {"text": {}})
    if "text" not in kinds or "message" in kinds:
        raise ModelError(f"model {spec.name!r} is not made for plain text: use another model")
    most = positions(encoder.model)
    for field in ("query_length", "document_length"):
        if most is not None and (asked := getattr(spec, field)) > most:
            raise ModelError(f"model {spec.name!r} reads at most {most} tokens: {field} is {asked}, lower it")


def positions(model: Any) -> int | None:
    """How many tokens a transformer has positions for; None where there is no such bound."""
    most = getattr(model.config, "max_position_embeddings", None)
    if most is None or most < 1:
        return None
    for part in model.modules():  # RoBERTa and its kin count positions from the padding index on
        first = getattr(part, "padding_idx", None)
        if isinstance(first, int) and isinstance(getattr(part, "position_embeddings", None), nn.Embedding):
            return int(most) - first - 1
    return int(most)


def assembled(modules: list[nn.Module], spec: ModelSpec, device: str | None) -> "SentenceTransformer":
    """The modules as one model with the spec's prompts, lengths and similarity, in evaluation mode."""
    from sentence_transformers import SentenceTransformer

    module = SentenceTransformer(
        modules=modules,
        device=device,
        prompts={"query": spec.query_prompt, "document": spec.document_prompt},
        similarity_fn_name=spec.similarity,
    )
    side(module, "query")[0].max_seq_length = spec.query_length
    side(module, "document")[0].max_seq_length = spec.document_length  # both, where they share one
    return module.eval()
