"""The modules in a model's folder, as they were saved."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardneg.errors import ModelError
from hardneg.models.files import module_folders
from hardneg.models.spec import FullSpec
from hardneg.models.towers import has_twins
from hardneg.models.weights import load_options
from hardneg.seeding import derive_seed


def read_modules(folder: Path, spec: FullSpec, dtype: torch.dtype) -> list[nn.Module]:
    """The modules, with the transformers' weights in `dtype` as if rounded from float32; buffers stay as they are."""
    modules = _modules(folder, spec, dtype)
    if dtype == torch.float32:
        return modules
    if any(buffer.dtype == dtype for model in _networks(modules) for buffer in model.buffers()):
        modules = _modules(folder, spec, torch.float32)
    for model in _networks(modules):
        for weight in model.parameters():
            weight.data = weight.data.to(dtype)
    return modules


def _networks(modules: list[nn.Module]) -> list[nn.Module]:
    """The networks of transformers inside the modules, on all sides."""
    found = (getattr(part, "model", None) for part in nn.Sequential(*modules).modules() if hasattr(part, "tokenizer"))
    return [model for model in found if isinstance(model, nn.Module)]


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


@contextmanager
def quiet() -> Iterator[None]:
    """Keeps transformers from telling, on top of that, what is checked here."""
    from transformers.utils import logging

    level = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        with without_bars():
            yield
    finally:
        logging.set_verbosity(level)


def _modules(folder: Path, spec: FullSpec, dtype: torch.dtype) -> list[nn.Module]:
    """The modules that the folder holds; weights that it lacks are drawn from a fixed seed."""
    from safetensors import SafetensorError

    with quiet(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(0, "weights that the files lack") >> 1)
        try:
            if (folder / "modules.json").exists():
                return _own_modules(folder, dtype)
            return [_plain_transformer(folder, dtype)]
        except (OSError, ValueError, RuntimeError, ImportError, LookupError, SafetensorError) as error:
            lines = (str(error).strip() or type(error).__name__).splitlines()[:2]
            reason = " ".join(" ".join(lines).split())
            raise ModelError(f"model {spec.name!r} cannot be opened ({reason}): check {folder}") from error


def _own_modules(folder: Path, dtype: torch.dtype) -> list[nn.Module]:
    from sentence_transformers import SentenceTransformer

    whole = SentenceTransformer(
        str(folder), device="cpu", trust_remote_code=False, local_files_only=True, model_kwargs=_weights(folder, dtype)
    )
    modules: list[Any] = list(whole.children())
    if dtype != torch.float32 and not has_twins(whole):  # what comes behind was rounded with the transformer
        for number, place in enumerate(module_folders(folder)):
            if number and any(True for _ in modules[number].parameters()):
                modules[number] = type(modules[number]).load(str(folder), subfolder=place.name, local_files_only=True)
    return modules


def _plain_transformer(folder: Path, dtype: torch.dtype) -> nn.Module:
    from sentence_transformers.sentence_transformer.modules import Transformer

    local = {"local_files_only": True, "trust_remote_code": False}
    transformer: nn.Module = Transformer(
        str(folder),
        model_kwargs=_weights(folder, dtype) | local,
        processor_kwargs=dict(local),
        config_kwargs=dict(local),
        modality_config={"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
        module_output_name="token_embeddings",
    )
    return transformer


def _weights(folder: Path, dtype: torch.dtype) -> dict[str, Any]:
    options = {kind: load_options(place) for place, kind in module_folders(folder).items()}
    return {"dtype": dtype, **options.get("Transformer", {})}
