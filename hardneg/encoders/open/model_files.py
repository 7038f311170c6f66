"""The files of a model's folder; weights are safetensors, or else PyTorch's own, read as tensors alone."""

import json
import pickle
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hardneg.encoders.spec import SIDES, Side
from hardneg.records.errors import ModelError

ROUTER = "router_config.json"
WAYS_ROUND = "see 'Code of its own' on the page of your own model"
_MOST_MODULES = 100
TRANSFORMERS = ("Transformer", "MLMTransformer")
"""Modules with a transformer; the second is that of sparse encoders of older versions of sentence-transformers."""


def module_folders(folder: Path) -> dict[Path, str]:
    """The folders of a model's modules with their class names, in order; a transformers folder is one."""
    path = folder / "modules.json"
    if not path.exists():
        return {folder: "Transformer"}
    try:
        modules = {folder / module["path"]: _class_name(module["type"], path) for module in read_json(path)}
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not a list of modules with path and type: copy the model again") from error
    folders = modules
    if "Router" in modules.values():  # what follows it is on both routes
        folders = _routed(folder) | {at: class_name for at, class_name in modules.items() if class_name != "Router"}
    if not 0 < len(folders) <= _MOST_MODULES:
        raise ModelError(f"{path}: names {len(folders) or 'no'} modules: copy the model again")
    return folders


def routes(folder: Path) -> list[Any]:
    """The routes of a Router, in a list; empty for a model without one."""
    path = folder / ROUTER
    if not path.exists():
        return []
    content = read_json(path)
    structure = content.get("structure") if isinstance(content, dict) else None
    names = structure.values() if isinstance(structure, dict) else [structure]
    if all(isinstance(route, list) and all(isinstance(name, str) for name in route) for route in names):
        return [structure]
    raise ModelError(f"{path}: not a Router's modules and routes: copy the model again")


def sides(folder: Path) -> dict[Side, list[Path]]:
    """The folders of the modules that queries and documents pass through, in order."""
    paths = list(module_folders(folder))
    structure = next(iter(routes(folder)), None) or {}
    by_name = {path.name: path for path in paths}
    own = {side: [by_name[name] for name in structure.get(side, ()) if name in by_name] for side in SIDES}
    after = [path for path in paths if structure and not any(path.name in names for names in structure.values())]
    return {side: [*own[side], *after] if own[side] else paths for side in SIDES}


def _routed(folder: Path) -> dict[Path, str]:
    """The folders of the modules on both routes; they must lie in the model's own."""
    path = folder / ROUTER
    try:
        types = read_json(path)["types"]
        modules = {folder / name: _class_name(class_path, path) for name, class_path in types.items()}
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not a Router's modules and routes: copy the model again") from error
    if any(module.parent != folder or module.name == ".." for module in modules):
        raise ModelError(f"{path}: names folders outside the model: do not use it")
    return modules


def _class_name(class_path: str, path: Path) -> str:
    """The name of a module's class, which must be one of sentence-transformers (or of PyLate, whose form it reads)."""
    if not class_path.startswith(("sentence_transformers.", "pylate.")):
        raise ModelError(f"{path}: {class_path} is code of the model's own, which is not run: {WAYS_ROUND}")
    return class_path.rsplit(".")[-1]


def check_files(folder: Path) -> None:
    """Refuses a folder without configuration, tokenizer or all of its weights, also of an adapter.

    Of a transformer without a tokenizer's files transformers would make an empty one, to which all texts are equal.
    """
    folders = module_folders(folder)
    encoders = [path for path, class_name in folders.items() if class_name in TRANSFORMERS] or [folder]
    for encoder in encoders:
        adapted = (encoder / "adapter_config.json").is_file()
        if not adapted and not (encoder / "config.json").is_file():
            raise ModelError(f"model {encoder}: no config.json there: name a folder that holds a model")
        of_bytes = str(json_object(encoder / "tokenizer_config.json").get("tokenizer_class")) in _OF_BYTES
        if not of_bytes and not any(True for pattern in _TOKENIZERS for _ in encoder.glob(pattern)):
            raise ModelError(f"model {encoder}: no tokenizer there: copy the model again, with its tokenizer's files")
    for path, class_name in folders.items():
        if not weight_files(path) and (path in encoders or class_name in _WEIGHED):
            raise ModelError(f"model {path}: no weights there: neither *.safetensors nor {PICKLED}")


_WEIGHED = {"Dense", "LayerNorm", "SparseStaticEmbedding"}
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken", "*.vocab", "bpe.codes")
_OF_BYTES = {"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"}  # they have no vocabulary to keep in files


def check_activations(folder: Path) -> None:
    """Refuses activations that are not torch's own, which sentence-transformers would replace by tanh."""
    for module, class_name in module_folders(folder).items():
        path = module / "config.json"
        content = read_json(path) if class_name not in (*TRANSFORMERS, "SpladePooling") and path.is_file() else {}
        name = content.get("activation_function") if isinstance(content, dict) else None
        if name is not None and not str(name).startswith("torch.nn."):
            raise ModelError(f"model {module}: activation {name} is code of its own, which is not run: use another one")


def read_json(path: Path) -> Any:
    """The content of a JSON file of a model."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(f"{path}: not readable as JSON ({error}): copy the model again") from error


def json_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file of a model; empty where there is no such file."""
    content = read_json(path) if path.is_file() else {}
    if not isinstance(content, dict):
        raise ModelError(f"{path}: not names and values in JSON: copy the model again")
    return content


SAFE = "*.safetensors"
PICKLED = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
PICKLES = ["pytorch_model.bin", "pytorch_model-*.bin"]


def weight_files(folder: Path) -> list[Path]:
    """The files of a folder's weights: safetensors, or else those of PyTorch; possibly none.

    Raises:
        ModelError: a file of the index is missing, or outside the folder.
    """
    if safe := sorted(path for path in folder.glob(SAFE) if path.is_file()):
        return safe
    if (folder / PICKLED).is_file():
        return [folder / PICKLED]
    return _shards(folder) if (folder / INDEX).is_file() else []


def has_weights(folder: Path) -> bool:
    """Whether a folder has the files of its weights, all of them."""
    try:
        return bool(weight_files(folder))
    except ModelError:
        return False


def weights_in(paths: Iterable[str]) -> list[str]:
    """The paths of a repository's weights that would be read: by folder, as `weight_files` selects them."""
    by_folder: dict[str, tuple[list[str], list[str]]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        safe, pickled = by_folder.setdefault(folder, ([], []))
        if name.endswith(".safetensors"):
            safe.append(path)
        elif any(Path(name).match(pattern) for pattern in PICKLES):
            pickled.append(path)
    return [path for safe, pickled in by_folder.values() for path in (safe or pickled)]


def load_options(folder: Path) -> dict[str, Any]:
    """The options of transformers for the format of a folder's weights.

    Raises:
        ModelError: a PyTorch file holds anything but tensors by name; nothing in it is executed.
    """
    files = weight_files(folder)
    safe = not files or files[0].suffix == ".safetensors"
    for path in files if not safe else ():
        _check_tensors(path)
    return {"use_safetensors": safe, "weights_only": True}


def _check_tensors(path: Path) -> None:
    import torch

    advice = "it is not read; take a copy of the model in safetensors"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's, on pickles of other kinds than its own
            held = torch.load(path, map_location="meta", weights_only=True)
    except pickle.UnpicklingError as error:
        raise ModelError(f"model {path}: holds more than tensors, which could run code: {advice}") from error
    except (RuntimeError, EOFError, OSError, ValueError, LookupError) as error:
        raise ModelError(f"model {path}: damaged or cut off ({type(error).__name__}): copy it again") from error
    if not isinstance(held, Mapping) or not all(isinstance(value, torch.Tensor) for value in held.values()):
        raise ModelError(f"model {path}: holds no tensors by their names: {advice}")


def _shards(folder: Path) -> list[Path]:
    path = folder / INDEX
    try:
        names = sorted(set(read_json(path)["weight_map"].values()))
        shards = [folder / name for name in names]
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not an index of weights: copy the model again") from error
    for shard in shards:
        if shard.parent != folder or shard.name in ("", ".."):
            raise ModelError(f"{path}: names files outside the model: do not use it")
        if not shard.is_file():
            raise ModelError(f"model {folder}: {shard.name} is missing, which {INDEX} names: copy the model again")
    return shards
