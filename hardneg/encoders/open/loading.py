"""Loads the modules in a model's folder and assembles a SentenceTransformer of them by a spec."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from hardneg.encoders.families.adapters.adapter_base import network_folder
from hardneg.encoders.families.adapters.adapter_source import put_adapters
from hardneg.encoders.open.model_files import TRANSFORMERS, check_activations, load_options, module_folders, sides
from hardneg.encoders.open.soundness import check_encoder, check_tokenizer, check_weights
from hardneg.encoders.spec import SIDES, Activation, FullSpec
from hardneg.encoders.tokens.typed_tokens import check_token_types, joined
from hardneg.encoders.towers import folded, has_twins, route, transformers, twins, with_own_queries
from hardneg.records.errors import ModelError
from hardneg.runtime.seeding import derive_seed

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from hardneg.encoders.open.resolved_model import ResolvedModel
    from hardneg.encoders.speed.fastest import Precision


def weights_dtype(spec: FullSpec, precision: "Precision | None") -> torch.dtype:
    """The dtype that weights are loaded in: float32 to train (no precision) and for `auto`, else the requested one."""
    if precision is None or spec.dtype == "fp32":
        return torch.float32
    if spec.dtype == "auto":
        return torch.bfloat16 if precision == "bf16" else torch.float32
    return torch.bfloat16 if spec.dtype == "bf16" else torch.float16


def read_modules(folder: Path, dtype: torch.dtype) -> list[nn.Module]:
    """The modules, with the transformers' weights in `dtype` as if rounded from float32; buffers stay as they are."""
    modules = _modules(folder, dtype)
    if dtype == torch.float32:
        return modules
    if any(_rounded(model, dtype) & model.state_dict().keys() for model in _networks(modules)):
        modules = _modules(folder, torch.float32)
    for model in _networks(modules):
        _unround(model, _rounded(model, dtype))
        hold_in(model, dtype)
    return modules


def hold_in(network: nn.Module, dtype: torch.dtype) -> None:
    """Rounds the weights; buffers, such as the frequencies of positions, stay as they are."""
    for weight in network.parameters():
        weight.data = weight.data.to(dtype)


def _rounded(model: nn.Module, dtype: torch.dtype) -> set[str]:
    """The buffers in a dtype that only weights should have."""
    return {name for name, buffer in model.named_buffers() if buffer.dtype == dtype}


def _unround(model: Any, names: set[str]) -> None:
    """Computes buffers that are in no file again, in float32, without memory for the weights."""
    if not names:
        return
    from accelerate import init_empty_weights

    with init_empty_weights(include_buffers=False):
        again = type(model)(model.config)
    for name in names:
        path, _, own = name.rpartition(".")
        setattr(model.get_submodule(path), own, again.get_buffer(name))


def _networks(modules: list[nn.Module]) -> list[nn.Module]:
    """The networks of transformers inside the modules, on all sides."""
    parts: Iterator[Any] = (part for part in nn.Sequential(*modules).modules() if hasattr(part, "tokenizer"))
    return [part.model for part in parts if isinstance(getattr(part, "model", None), nn.Module)]


def _modules(folder: Path, dtype: torch.dtype) -> list[nn.Module]:
    from sentence_transformers import SentenceTransformer

    if not (folder / "modules.json").exists():
        text = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
        outputs = {"modality_config": text, "module_output_name": "token_embeddings"}
        return [library_transformer(folder, load_kwargs(folder, dtype), {}, **outputs)]
    whole = library_model(SentenceTransformer, folder, dtype)
    modules: list[Any] = list(whole.children())
    if dtype != torch.float32 and not has_twins(whole):  # later modules were rounded with the transformer
        for number, path in enumerate(module_folders(folder)):
            if number and any(True for _ in modules[number].parameters()):
                modules[number] = type(modules[number]).load(str(folder), subfolder=path.name, local_files_only=True)
    return modules


def library_transformer(folder: Path, weights: Mapping[str, Any], config: Mapping[str, Any], **options: Any) -> Any:
    """A folder's transformer as a module of sentence-transformers, from local files and without remote code.

    weights, config: options of transformers for the weights and the configuration. options: of the module.
    """
    from sentence_transformers.base.modules import Transformer

    own = {"local_files_only": True, "trust_remote_code": False}
    whole = {**config, **own, "auto_map": {}}  # so that code of the folder's own is not named where it is saved
    return Transformer(
        str(folder), model_kwargs={**weights, **own}, processor_kwargs=own, config_kwargs=whole, **options
    )


def library_model(model_class: Any, folder: Path, dtype: torch.dtype) -> Any:
    """Opens a folder by a class of sentence-transformers: on the CPU, from local files, without remote code."""
    own = {"trust_remote_code": False, "local_files_only": True, "config_kwargs": {"auto_map": {}}}
    return model_class(str(folder), device="cpu", model_kwargs=load_kwargs(folder, dtype), **own)


def load_kwargs(folder: Path, dtype: torch.dtype) -> dict[str, Any]:
    """The options of transformers for the weights in a model's folder, with their dtype.

    Raises:
        ModelError: the weights are more than tensors, or an activation is code of its own.
    """
    check_activations(folder)
    options = {class_name: load_options(network_folder(path)) for path, class_name in module_folders(folder).items()}
    return {"dtype": dtype, **next((options[class_name] for class_name in TRANSFORMERS if class_name in options), {})}


def load_module(model: "ResolvedModel", device: str | None, precision: "Precision | None") -> "SentenceTransformer":
    """The model by its spec, with prompts and lengths set, in evaluation mode.

    precision: that of the encoding; None is to train, and only then a new adapter is added.

    Raises:
        ModelError: the files are not those of one whole model, or it does not support what the spec sets.
    """
    spec, folder = model.full, model.path
    modules = read_modules(folder, weights_dtype(spec, precision))
    modules = folded(modules, spec.name)
    check_sound(modules, folder, spec)
    modules = joined(modules) if spec.typed else modules
    if spec.adapter is not None:
        put_adapters(nn.Sequential(*modules), spec, model.location, learns=precision is None)
    module = assembled(_arranged(modules, spec), spec, device)
    return with_prompts(module, model.contract.prompts, model.contract.default_prompt_name)


def check_sound(modules: list[nn.Module], folder: Path, spec: FullSpec) -> None:
    """Refuses transformers of incomplete models, or that cannot read as many tokens as the spec sets."""
    whole, folders = nn.Sequential(*modules), sides(folder)
    for side in SIDES:
        transformer = route(whole, side)[0]
        check_encoder(transformer, spec)
        check_tokenizer(transformer, spec.name)
        check_weights(transformer.model, network_folder(folders[side][0]), spec.name)


def _arranged(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    whole = nn.Sequential(*modules)
    for transformer in transformers(whole):
        check_token_types(transformer, spec)
    if has_twins(whole):
        return [twins(arrange(route(whole, "query"), spec), arrange(route(whole, "document"), spec))]
    arranged = arrange(modules, spec)
    return [twins(with_own_queries(arranged), arranged)] if spec.twins else arranged


def assembled(
    modules: list[nn.Module], spec: FullSpec, device: str | None, model_class: "type[Any] | None" = None
) -> "SentenceTransformer":
    """The modules as one model with the spec's prompts, lengths and similarity, in evaluation mode.

    model_class: of sentence-transformers; None is `SentenceTransformer`.
    """
    from sentence_transformers import SentenceTransformer

    with _unrounded(modules[1:]):
        module: SentenceTransformer = (model_class or SentenceTransformer)(
            modules=modules,
            device=device,
            prompts={"query": spec.query_prompt, "document": spec.document_prompt},
            similarity_fn_name=spec.similarity,
            **({} if spec.truncate_dim is None else {"truncate_dim": spec.truncate_dim}),
        )
    _set_lengths(module, spec)
    return module.eval()


def _set_lengths(module: "SentenceTransformer", spec: FullSpec) -> None:
    """Makes transformers truncate texts to the spec's lengths; the tokenizer of a table does so itself."""
    for side in SIDES:
        if hasattr(first := route(module, side)[0], "query_length"):
            first.max_seq_length = spec.length(side)  # of documents, where they share one
    for first in (each for each in transformers(module) if hasattr(each, "query_length")):
        shorter = spec.query_length if first.max_seq_length != spec.query_length and not has_twins(module) else None
        first.query_length, first.document_length = shorter, None


@contextmanager
def _unrounded(parts: list[nn.Module]) -> Iterator[None]:
    """Restores, in float32, the weights that SentenceTransformer rounds to the dtype of the transformer."""
    weights = [part.state_dict() for part in parts]
    yield
    for part, kept in zip(parts, weights, strict=True):
        part.float().load_state_dict(kept)


def with_prompts(
    module: "SentenceTransformer", others: Mapping[str, str], default: str | None
) -> "SentenceTransformer":
    """The model with further prompts of other names."""
    module.prompts = {**others, **module.prompts}
    module.default_prompt_name = default
    return module


_PROJECTION_STD = 0.02


def arrange(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    """The modules with the pooling, head and normalisation of the spec."""
    return with_head(_pooled(modules, spec), spec)


def with_head(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    """Adds the head and the normalisation of the spec to modules that give one vector a text.

    Source: `projection` with `layer_norm` is the head of ANCE and STAR: Linear from N(0, 0.02), LayerNorm; with
    `activation` tanh it is that of CoRT.
    """
    from sentence_transformers.sentence_transformer.modules import LayerNorm, Normalize

    while isinstance(modules[-1], Normalize):
        modules = modules[:-1]
    if spec.projection is not None:
        modules = [*modules, _projection(_dimension(modules), spec.projection, spec.activation)]
    if spec.layer_norm:
        modules = [*modules, LayerNorm(_dimension(modules))]
    return [*modules, Normalize()] if spec.similarity == "cosine" else modules


def _pooled(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    from sentence_transformers.sentence_transformer.modules import Pooling

    encoder: Any = modules[0]
    if spec.pooling == "own":
        if len(modules) == 1:
            raise ModelError(f"model {spec.name!r} has no pooling of its own: set pooling to cls, mean or lasttoken")
        return modules
    pooling = Pooling(encoder.get_embedding_dimension(), pooling_mode=spec.pooling)
    if len(modules) == 1:
        return [encoder, pooling]
    if not any(isinstance(module, Pooling) for module in modules):
        raise ModelError(f"model {spec.name!r} has no pooling that could be replaced: set pooling to own")
    return [pooling if isinstance(module, Pooling) else module for module in modules]


def _projection(size: int, dimension: int, activation: Activation) -> nn.Module:
    from sentence_transformers.sentence_transformer.modules import Dense

    draws = torch.Generator().manual_seed(derive_seed(0, "projection", size, dimension) >> 1)
    weight = torch.empty(dimension, size).normal_(0.0, _PROJECTION_STD, generator=draws)
    bias = torch.zeros(dimension)
    function = nn.Tanh() if activation == "tanh" else None
    dense: nn.Module = Dense(size, dimension, activation_function=function, init_weight=weight, init_bias=bias)
    return dense


def _dimension(modules: list[nn.Module]) -> int:
    for module in reversed(modules):
        if callable(size := getattr(module, "get_embedding_dimension", None)):
            return int(size())
    raise ModelError("the model does not declare the dimension of its vectors: set pooling to cls, mean or lasttoken")
