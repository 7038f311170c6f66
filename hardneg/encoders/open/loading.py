"""Reading and checking a model's modules, assembling them into a SentenceTransformer for a spec, and saving it."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from sentence_transformers.sentence_transformer.modules import Dense, LayerNorm, Normalize, Pooling
from torch import nn

from hardneg.encoders import adapters as adapters, tokens, towers
from hardneg.encoders.open import contract, model_files, resolved
from hardneg.encoders.spec import SIDES, TOKEN_TYPES, FullSpec, Precision
from hardneg.records import SPEC_FILE, ModelError
from hardneg.runtime import derive_seed
from hardneg.store import replacing_folder, system_errors

_UNUSED = re.compile(r"(^|\.)(pooler|position_ids|token_type_ids)(\.|$)")  # not needed for an encoder's vectors
_SHOWN, _LEAST = 3, 2
_PROJECTION_STD = 0.02


def weights_dtype(spec: FullSpec, precision: Precision | None) -> torch.dtype:
    """Return the dtype to load weights in: `spec.dtype` or, for `auto`, `precision`; float32 if `precision` is None."""
    name = None if precision is None else precision if spec.dtype == "auto" else spec.dtype
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name or "", torch.float32)


def read_modules(folder: Path, dtype: torch.dtype = torch.float32) -> list[nn.Module]:
    """Read the modules of a folder. Transformer weights are rounded from float32 to `dtype`; all others stay float32.

    If the library would also round buffers, such as position frequencies, all modules are first read in float32.
    """

    def networks() -> list[nn.Module]:
        parts = (getattr(part, "model", None) for part in nn.Sequential(*modules).modules())
        return [network for network in parts if isinstance(network, nn.Module)]

    modules = _modules(folder, dtype)
    if dtype == torch.float32:
        return modules
    if any(buffer.dtype == dtype for network in networks() for buffer in network.buffers()):
        modules = _modules(folder, torch.float32)
    for network in networks():
        towers.hold_in(network, dtype)
    return modules


def _modules(folder: Path, dtype: torch.dtype) -> list[nn.Module]:
    if not (folder / "modules.json").exists():
        text = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
        outputs = {"modality_config": text, "module_output_name": "token_embeddings"}
        return [library_transformer(folder, load_kwargs(folder, dtype), {}, **outputs)]
    whole = library_model(SentenceTransformer, folder, dtype)
    modules: list[Any] = list(whole.children())
    if dtype != torch.float32 and not towers.has_twins(whole):  # later modules were rounded with the transformer
        for number, path in enumerate(model_files.read_folder(folder).modules):
            if number and any(True for _ in modules[number].parameters()):
                modules[number] = type(modules[number]).load(str(folder), subfolder=path.name, local_files_only=True)
    return modules


def library_transformer(folder: Path, weights: Mapping[str, Any], config: Mapping[str, Any], **options: Any) -> Any:
    """Open a folder's transformer as a sentence-transformers module, from local files, without remote code.

    weights, config: transformers options for the weights and the configuration. options: module options.
    """
    own = {"local_files_only": True, "trust_remote_code": False}
    whole = {**config, **own, "auto_map": {}}  # so that a saved copy does not name the folder's own code
    return Transformer(
        str(folder), model_kwargs={**weights, **own}, processor_kwargs=own, config_kwargs=whole, **options
    )


def library_model(model_class: Any, folder: Path, dtype: torch.dtype = torch.float32) -> Any:
    """Open a folder with a sentence-transformers class on the CPU, from local files, without remote code."""
    own = {"trust_remote_code": False, "local_files_only": True, "config_kwargs": {"auto_map": {}}}
    return model_class(str(folder), device="cpu", model_kwargs=load_kwargs(folder, dtype), **own)


def load_kwargs(folder: Path, dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    """Return transformers options to load weights in a dtype. Raises ModelError if loading them could run code."""
    modules = model_files.read_folder(folder).modules.items()
    options = {name: model_files.load_options(model_files.network_folder(path)) for path, name in modules}
    own: dict[str, Any] = next((options[name] for name in model_files.TRANSFORMERS if name in options), {})
    return {"dtype": dtype, **own}


def load_module(model: resolved.ResolvedModel, device: str | None, precision: Precision | None) -> SentenceTransformer:
    """Load a model in evaluation mode, with the prompts and lengths of the spec.

    precision: precision for encoding; None opens the model for training, where a new adapter may be added.

    Raises ModelError if the files are not a complete model, or the model does not support the spec.
    """
    spec, folder = model.full, model.files.path
    modules = towers.folded(read_modules(folder, weights_dtype(spec, precision)), spec.name)
    check_sound(modules, folder, spec)
    modules = tokens.joined(modules) if spec.typed else modules
    whole = nn.Sequential(*modules)
    adapters.put_adapters(whole, spec, model.location, learns=precision is None)
    for transformer in towers.transformers(whole):
        tokens.check_token_types(transformer, spec)
    module = assembled(with_heads(modules, spec), spec, device)
    return with_prompts(module, model.contract.prompts, model.contract.default_prompt_name)


def check_sound(modules: list[nn.Module], folder: Path, spec: FullSpec) -> None:
    """Raise ModelError if a side is incomplete, does not accept plain text, or has too few positions for the spec."""
    whole, folders = nn.Sequential(*modules), model_files.read_folder(folder).sides
    for side in SIDES:
        transformer = towers.route(whole, side)[0]
        check_encoder(transformer, spec)
        rows = transformer.model.get_input_embeddings().num_embeddings
        check_tokenizer(transformer.tokenizer, rows, spec.name)
        check_weights(transformer.model, model_files.network_folder(folders[side][0]), spec.name)


def check_encoder(encoder: Any, spec: FullSpec) -> None:
    """Raise ModelError if the first module does not accept plain text, or has fewer positions than the spec needs."""
    if getattr(encoder, "tokenizer", None) is None or getattr(encoder, "model", None) is None:
        raise ModelError(f"model {spec.name!r} does not start with a transformer; use another model")
    modalities = getattr(encoder, "modality_config", {"text": {}})
    if "text" not in modalities or "message" in modalities:
        raise ModelError(f"model {spec.name!r} does not accept plain text, or uses a chat template; use another model")
    options = [f"{part}.{name}" for part, values in encoder.processing_kwargs.items() for name in values]
    if unknown := [name for name in options if name != "text.max_length"]:
        problem = f"processing_kwargs not supported: {', '.join(unknown)}"
        raise ModelError(f"model {spec.name!r}: {problem}; use another model")
    most = positions(encoder.model)
    for side in SIDES:
        if (length := spec.length(side)) < _LEAST:
            raise ModelError(f"model {spec.name!r} declares a maximum length of {length}; set {side}_length")
        if most is not None and length > most:
            raise ModelError(f"model {spec.name!r} reads at most {most} tokens; lower {side}_length from {length}")


def positions(model: Any) -> int | None:
    """Return the maximum number of tokens that a transformer has positions for; None if unlimited."""
    most = getattr(model.config, "max_position_embeddings", None)
    if most is None or most < 1:
        return None
    for part in model.modules():  # RoBERTa and similar networks count positions from the padding index on
        first = getattr(part, "padding_idx", None)
        if isinstance(first, int) and isinstance(getattr(part, "position_embeddings", None), nn.Embedding):
            return int(most) - first - 1
    return int(most)


def check_tokenizer(tokenizer: Any, rows: int, name: str) -> None:
    """Raise ModelError if a tokenizer has no vocabulary, or has ids beyond the rows of the network's embeddings."""
    ids = tokenizer.get_vocab().values()
    if not set(ids) - set(getattr(tokenizer, "all_special_ids", ())):
        raise ModelError(f"model {name!r}: no tokenizer found; copy the model again, with its tokenizer files")
    if max(ids) >= rows:
        raise ModelError(
            f"model {name!r}: its tokenizer has ids up to {max(ids)}, but its transformer has {rows} embeddings, "
            "so they belong to different models; copy the model again"
        )


def check_weights(model: Any, folder: Path, name: str) -> None:
    """Raise ModelError if weights are missing, which would then be random, or if files have layers of another model.

    Unused heads, such as poolers and language-model heads, may be missing or extra.
    """

    def stem(key: str) -> str | None:  # the list of layers of a weight, without the number
        match = re.search(r"\.\d+\.", key)
        return key[: match.start()] if match else None

    missing, unexpected = differences(model, folder)
    check_missing(missing, name)
    own = {stem(key) for key in model.state_dict()} - {None}
    if surplus := sorted(key for key in unexpected if stem(key) in own):
        problem = f"the weights contain {', '.join(surplus[:_SHOWN])}, but config.json does not declare them"
        raise ModelError(f"model {name!r}: {problem}; copy the model again")


def differences(model: Any, folder: Path, unused: re.Pattern[str] | None = _UNUSED) -> tuple[list[str], list[str]]:
    """Return the names of missing and of unexpected weights in a network's files, omitting matches of `unused`."""
    own = {"config": model.config, "output_loading_info": True, "device_map": "meta", "local_files_only": True}
    _, info = type(model).from_pretrained(str(folder), **own, **model_files.load_options(folder))
    missing, unexpected = (
        [key for key in info[name] if unused is None or not unused.search(key)]
        for name in ("missing_keys", "unexpected_keys")
    )
    return missing, unexpected


def check_missing(missing: Iterable[str], name: str) -> None:
    """Raise a ModelError that names the first missing weights of a model, if there are any."""
    if lacking := sorted(missing):
        raise ModelError(f"model {name!r}: missing weights {', '.join(lacking[:_SHOWN])}; copy the model again")


def assembled(
    modules: list[nn.Module], spec: FullSpec, device: str | None, model_class: type[Any] = SentenceTransformer
) -> SentenceTransformer:
    """Assemble modules into a `model_class` with the spec's prompts, lengths and similarity, in evaluation mode."""
    weights = [part.state_dict() for part in modules[1:]]
    module: SentenceTransformer = model_class(
        modules=modules,
        device=device,
        prompts={"query": spec.query_prompt, "document": spec.document_prompt},
        similarity_fn_name=spec.similarity,
        **({} if spec.truncate_dim is None else {"truncate_dim": spec.truncate_dim}),
    )
    for part, kept in zip(modules[1:], weights, strict=True):  # undoes rounding to the transformer's dtype
        part.float().load_state_dict(kept)
    firsts = {side: towers.route(module, side)[0] for side in SIDES}
    firsts = {side: first for side, first in firsts.items() if hasattr(first, "query_length")}
    for side, first in firsts.items():  # the tokenizer of a table truncates itself
        first.max_seq_length = spec.length(side)  # of documents, where they share one
    for first in firsts.values():
        shorter = first.max_seq_length != spec.query_length and not towers.has_twins(module)
        first.query_length, first.document_length = spec.query_length if shorter else None, None
    return module.eval()


def with_prompts(module: SentenceTransformer, others: Mapping[str, str], default: str | None) -> SentenceTransformer:
    """Add the prompts in `others` to a model, without replacing any, set its default prompt, and return the model."""
    module.prompts = {**others, **module.prompts}
    module.default_prompt_name = default
    return module


def with_heads(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    """Return the modules with the pooling, head, normalisation and separate query modules that the spec requires.

    Source: `projection` with `layer_norm` is the head of ANCE and STAR: Linear from N(0, 0.02), LayerNorm;
    `projection` with `activation` tanh is the head of CoRT.
    """
    whole = nn.Sequential(*modules)
    if towers.has_twins(whole):
        return [towers.twins(*(_with_head(_pooled(towers.route(whole, side), spec), spec) for side in SIDES))]
    modules = _with_head(_pooled(modules, spec), spec)
    return [towers.twins(towers.with_own_queries(modules), modules)] if spec.twins else modules


def _with_head(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    def dimension() -> int:
        for module in reversed(modules):
            if callable(size := getattr(module, "get_embedding_dimension", None)):
                return int(size())
        raise ModelError("the model does not declare its vector dimension; set pooling to cls, mean or lasttoken")

    while isinstance(modules[-1], Normalize):
        modules = modules[:-1]
    if spec.projection is not None:
        size, function = dimension(), nn.Tanh() if spec.activation == "tanh" else None
        draws = torch.Generator().manual_seed(derive_seed(0, "projection", size, spec.projection) >> 1)
        weight = torch.empty(spec.projection, size).normal_(0.0, _PROJECTION_STD, generator=draws)
        options = {"activation_function": function, "init_weight": weight, "init_bias": torch.zeros(spec.projection)}
        modules = [*modules, Dense(size, spec.projection, **options)]
    if spec.layer_norm:
        modules = [*modules, LayerNorm(dimension())]
    return [*modules, Normalize()] if spec.similarity == "cosine" else modules


def _pooled(modules: list[nn.Module], spec: FullSpec) -> list[nn.Module]:
    encoder: Any = modules[0]
    if spec.pooling == "own":
        if len(modules) == 1 and hasattr(encoder, "model"):
            raise ModelError(f"model {spec.name!r} has no pooling of its own; set pooling to cls, mean or lasttoken")
        return modules
    pooling = Pooling(encoder.get_embedding_dimension(), pooling_mode=spec.pooling)
    if len(modules) == 1:
        return [encoder, pooling]
    if not any(isinstance(module, Pooling) for module in modules):
        raise ModelError(f"model {spec.name!r} has no pooling to replace; set pooling to own")
    return [pooling if isinstance(module, Pooling) else module for module in modules]


def save_module(module: SentenceTransformer, spec: FullSpec, folder: Path, card: str | None) -> None:
    """Replace `folder` with the model, its model card, and the parts of the spec that the modules do not save."""
    with written_whole(folder) as draft, towers.evaluating(module):
        whole = module
        if spec.typed:  # each side's tokenizer sets its token types for any program that opens the model
            parts = (tokens.with_token_type(towers.route(module, side), spec.token_type(side)) for side in SIDES)
            typed = assembled([towers.twins(*parts)], spec, str(module.device), type(module))
            whole = with_prompts(typed, module.prompts, module.default_prompt_name)
        if spec.adapter is not None and spec.adapter.save == "merged" and adapters.has_adapter(whole):
            whole = adapters.merged(whole)
        for transformer in towers.transformers(whole):
            forget_last_call(transformer.tokenizer)
        whole.save(str(draft), create_model_card=False, safe_serialization=True)
        options = {name: getattr(spec, name) for name in (*contract.OWN, *(TOKEN_TYPES if spec.typed else ()))}
        options |= {} if spec.adapter is None else {"adapter": adapters.noted(spec.adapter)}
        (draft / SPEC_FILE).write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
        if card is not None:
            (draft / "README.md").write_text(card, encoding="utf-8")


@contextmanager
def written_whole(folder: Path) -> Iterator[Path]:
    """Yield a draft folder that replaces `folder` once the model is written. Raises ModelError if writing fails."""
    try:
        with replacing_folder(folder) as draft, resolved.quiet(), system_errors():
            yield draft
            # safetensors lets only the owner read: every file gets the read permissions of the folder
            for path in (path for path in draft.rglob("*") if path.is_file()):
                path.chmod(path.stat().st_mode | (draft.stat().st_mode & 0o444))
    except OSError as error:
        raise ModelError(f"model {folder} cannot be written ({error}); check the disk and permissions") from error


def forget_last_call(tokenizer: Any) -> None:
    """Remove the last call's truncation and padding settings, and references to custom code, from a tokenizer."""
    getattr(tokenizer, "init_kwargs", {}).pop("auto_map", None)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        backend.no_truncation()
        backend.no_padding()
