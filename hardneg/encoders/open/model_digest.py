"""The digest of a model: it changes whenever its vectors may, and not with its folder."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from hardneg.encoders.families.adapters.adapter_base import network_folder
from hardneg.encoders.families.adapters.adapter_files import adapter_content
from hardneg.encoders.families.adapters.adapter_source import adapter_identity
from hardneg.encoders.open.model_files import (
    TRANSFORMERS,
    check_activations,
    check_files,
    json_object,
    module_folders,
    read_json,
    routes,
    weight_files,
)
from hardneg.encoders.open.soundness import check_headers
from hardneg.encoders.open.source import Location
from hardneg.encoders.spec import ModelSpec
from hardneg.records.types import PluginSetting
from hardneg.store.digest import digest, file_digest, note_read
from hardneg.store.identity import options_in_key

_PATTERNS = ("vocab.txt", "vocab.json", "merges.txt", "*.model", "*.jinja", "*.tiktoken", "*.vocab", "bpe.codes")
_CONFIGS: tuple[str, ...] = ("config.json", "sentence_*_config.json", "model.safetensors.index.json")
_CONFIGS += ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
# Library versions, paths, and what a spec overrides (a tokenizer's file notes its last call; see `_sides`).
_IGNORED = {"__version__", "transformers_version", "_name_or_path", "name_or_path", "is_local", "local_files_only"}
_IGNORED |= {"tokenizer_file", "special_tokens_map_file", "max_seq_length", "model_max_length", "truncation", "padding"}


def digest_of(content: list[Any], spec: ModelSpec) -> str:
    """32 hexadecimal digits of the model that `spec` and files with this content give.

    For a folder the spec is filled in: the model's own values count. For a commit on the hub it is as written, since
    the commit fixes the rest; so the digest is the same before and after a download.
    """
    return digest([content, _options(spec)])


def _options(spec: ModelSpec) -> dict[str, Any]:
    if spec.encoder == PluginSetting("dense"):
        spec = replace(spec, encoder=None)
    if spec.dtype == "fp32":  # `auto` rounds float32 weights
        spec = replace(spec, dtype="auto")
    adapter = {} if spec.adapter is None else {"adapter": adapter_identity(spec.adapter)}
    return options_in_key(spec, {"name", "revision"}) | adapter


def model_content(location: Location) -> list[Any]:
    """The part of a digest for a model's files alone: the commit of a hub id, or the bytes.

    Paths, dates, README and library versions do not count.

    Raises:
        ModelError: there is no such model, the hub cannot be reached, or the model is incomplete.
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
    note_read(folder)
    paths = [path for pattern in (*_PATTERNS, *_CONFIGS) for path in folder.glob(pattern) if path.is_file()]
    return [[path.name, file_identity(path)] for path in sorted([*weight_files(folder), *paths])]


def file_identity(path: Path) -> Any:
    """The part of a file that counts: its bytes, or the values of JSON without those of its origin."""
    if path.suffix != ".json" or path.name == "vocab.json":
        return file_digest(path)
    note_read(path)
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
    """What a tokenizer keeps of its last call: the left side, where its configuration declares none."""
    config = json_object(path.with_name("tokenizer_config.json"))
    last = {name: content.get(name) for name in ("truncation", "padding") if f"{name}_side" not in config}
    return {name: "Left" for name, call in last.items() if isinstance(call, dict) and call.get("direction") == "Left"}
