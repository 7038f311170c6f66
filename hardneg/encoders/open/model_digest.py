"""A model's name by content: another whenever its vectors may differ, the same wherever it lies."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from hardneg.encoders.families.adapters.adapter_base import network_folder
from hardneg.encoders.families.adapters.adapter_files import adapter_content
from hardneg.encoders.families.adapters.adapter_source import adapter_identity
from hardneg.encoders.open.configuration import mapping
from hardneg.encoders.open.model_files import (
    TRANSFORMERS,
    check_activations,
    check_files,
    module_folders,
    read_json,
    routes,
    weight_files,
)
from hardneg.encoders.open.soundness import check_headers
from hardneg.encoders.open.source import Location
from hardneg.encoders.spec import ModelSpec
from hardneg.records.types import PluginSetting
from hardneg.store.digest import digest, file_digest
from hardneg.store.identity import options_in_key

_PATTERNS = ("vocab.txt", "vocab.json", "merges.txt", "*.model", "*.jinja", "*.tiktoken", "*.vocab", "bpe.codes")
_CONFIGS = (
    "config.json",
    "sentence_*_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
)
# Library versions, places, and what a spec overrides (a tokenizer's file notes its last call; see `_sides`).
_IGNORED = {
    "_name_or_path",
    "__version__",
    "transformers_version",
    "name_or_path",
    "is_local",
    "local_files_only",
    "tokenizer_file",
    "special_tokens_map_file",
    "max_seq_length",
    "model_max_length",
    "truncation",
    "padding",
}


def digest_of(content: list[Any], spec: ModelSpec) -> str:
    """32 hexadecimal digits that name the model which `spec` makes of files with this content.

    Of a folder, what the spec leaves to the model counts by the model's own value: the spec is whole. A hub's commit
    says the rest itself: the spec is as it was written, so the digest is the same before and after a download.
    """
    return digest([content, _options(spec)])


def _options(spec: ModelSpec) -> dict[str, Any]:
    if spec.encoder == PluginSetting("dense"):
        spec = replace(spec, encoder=None)
    if spec.dtype == "fp32":  # float32 weights are what `auto` comes from
        spec = replace(spec, dtype="auto")
    adapter = {} if spec.adapter is None else {"adapter": adapter_identity(spec.adapter)}
    return options_in_key(spec, {"name", "revision"}) | adapter


def model_content(location: Location) -> list[Any]:
    """What a digest says of a model's files alone: a hub id's commit, or the bytes.

    Not their places, dates, README or library versions.

    Raises:
        ModelError: there is no such model, it is only on the hub, which cannot be reached, or it is not whole.
    """
    if location.commit is not None:
        return [location.name, location.commit]
    folder = location.path
    check_files(folder)
    check_activations(folder)
    for path, class_name in module_folders(folder).items():
        if class_name in TRANSFORMERS:
            check_headers(network_folder(path))
    return module_contents(folder)


def module_contents(folder: Path) -> list[Any]:
    """The bytes of the files of a model's modules, with their classes and routes."""
    modules = module_folders(folder)
    contents: list[Any] = [list(modules.values()), *routes(folder)]
    for module in modules:
        contents.append(_files(module))
        if (base := network_folder(module)) != module:
            contents.append([adapter_content(module), _files(base)])
    return contents


def _files(folder: Path) -> list[Any]:
    """The name and content of each file that counts."""
    paths = [path for pattern in (*_PATTERNS, *_CONFIGS) for path in folder.glob(pattern) if path.is_file()]
    return [[path.name, file_identity(path)] for path in sorted([*weight_files(folder), *paths])]


def file_identity(path: Path) -> Any:
    """What of a file counts: its bytes, or of JSON what says more than where the file comes from."""
    if path.suffix != ".json" or path.name == "vocab.json":
        return file_digest(path)
    content = read_json(path)
    if isinstance(content, dict):
        content = {key: value for key, value in content.items() if key not in _IGNORED} | (
            _sides(content, path) if path.name == "tokenizer.json" else {}
        )
    try:
        return digest(content)
    except ValueError:  # infinite numbers, which some configurations have
        return file_digest(path)


def _sides(content: dict[str, Any], path: Path) -> dict[str, str]:
    """What of a last call is in force: the left side, where the tokenizer's configuration does not say which."""
    said = mapping(path.with_name("tokenizer_config.json"))
    last = {name: content.get(name) for name in ("truncation", "padding") if f"{name}_side" not in said}
    return {name: "Left" for name, call in last.items() if isinstance(call, dict) and call.get("direction") == "Left"}
