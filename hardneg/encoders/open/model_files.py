"""The files of a model's folder; weights are safetensors, or else PyTorch's own, read as tensors alone."""

import json
import pickle
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

from hardneg.encoders.spec import SIDES, Side
from hardneg.records import ModelError

ROUTER = "router_config.json"
ADAPTER, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
WAYS_ROUND = "see 'Code of its own' on the page of your own model"
TRANSFORMERS = ("Transformer", "MLMTransformer")
"""Modules with a transformer; the second is that of sparse encoders of older versions of sentence-transformers."""
SAFE, PICKLED, INDEX = "*.safetensors", "pytorch_model.bin", "pytorch_model.bin.index.json"
PICKLES = ["pytorch_model.bin", "pytorch_model-*.bin"]

_MOST_MODULES = 100
_WEIGHED = {"Dense", "LayerNorm", "SparseStaticEmbedding"}
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken", "*.vocab", "bpe.codes")
_OF_BYTES = {"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"}  # they have no vocabulary to keep in files
_OF_OTHER_LAYERS = "megatron_config", "layer_replication", "modules_to_save", "trainable_token_indices"
_Read = TypeVar("_Read")


def in_form(read: Callable[[Path], _Read]) -> Callable[[Path], _Read]:
    """Have a reader of a folder raise a ModelError where its JSON files are not in the usual form."""

    @wraps(read)
    def checked(folder: Path) -> _Read:
        try:
            return read(folder)
        except (TypeError, AttributeError, LookupError, ValueError) as error:
            form = f"a JSON file of it is not in the form that sentence-transformers writes ({error})"
            raise ModelError(f"model {folder}: {form}: copy the model again") from error

    return checked


@in_form
def module_folders(folder: Path) -> dict[Path, str]:
    """The folders of a model's modules with their class names, in order; a transformers folder is one."""
    path = folder / "modules.json"
    if not path.exists():
        return {folder: "Transformer"}
    modules = {folder / module["path"]: _class_name(module["type"], path) for module in read_json(path)}
    if "Router" in modules.values():  # what follows it is on both routes
        path = folder / ROUTER
        routed = {folder / name: _class_name(class_path, path) for name, class_path in read_json(path)["types"].items()}
        if any(module.parent != folder or module.name == ".." for module in routed):
            raise ModelError(f"{path}: names folders outside the model: do not use it")
        modules = routed | {at: class_name for at, class_name in modules.items() if class_name != "Router"}
    if not 0 < len(modules) <= _MOST_MODULES:
        raise ModelError(f"{path}: names {len(modules) or 'no'} modules: copy the model again")
    return modules


def _class_name(class_path: str, path: Path) -> str:
    """The name of a module's class, which must be one of sentence-transformers (or of PyLate, whose form it reads)."""
    if not class_path.startswith(("sentence_transformers.", "pylate.")):
        raise ModelError(f"{path}: {class_path} is code of the model's own, which is not run: {WAYS_ROUND}")
    return class_path.rsplit(".")[-1]


@in_form
def routes(folder: Path) -> dict[str, list[str]]:
    """The names of the modules on each route of a Router; empty for a model without one."""
    path = folder / ROUTER
    return {name: [*map(str, route)] for name, route in read_json(path)["structure"].items()} if path.exists() else {}


def sides(folder: Path) -> dict[Side, list[Path]]:
    """The folders of the modules that queries and documents pass through, in order."""
    paths, structure = list(module_folders(folder)), routes(folder)
    by_name = {path.name: path for path in paths}
    own = {side: [by_name[name] for name in structure.get(side, ()) if name in by_name] for side in SIDES}
    after = [path for path in paths if structure and not any(path.name in names for names in structure.values())]
    return {side: [*own[side], *after] if own[side] else paths for side in SIDES}


def check_files(folder: Path) -> None:
    """Refuses a folder without configuration, tokenizer or all of its weights, also of an adapter.

    Of a transformer without a tokenizer's files transformers would make an empty one, to which all texts are equal.
    """
    folders = module_folders(folder)
    encoders = [path for path, class_name in folders.items() if class_name in TRANSFORMERS] or [folder]
    for encoder in encoders:
        if not (encoder / ADAPTER).is_file() and not (encoder / "config.json").is_file():
            raise ModelError(f"model {encoder}: no config.json there: name a folder that holds a model")
        of_bytes = str(json_object(encoder / "tokenizer_config.json").get("tokenizer_class")) in _OF_BYTES
        if not of_bytes and not any(True for pattern in _TOKENIZERS for _ in encoder.glob(pattern)):
            raise ModelError(f"model {encoder}: no tokenizer there: copy the model again, with its tokenizer's files")
    for path, class_name in folders.items():
        if not weight_files(path) and (path in encoders or class_name in _WEIGHED):
            raise ModelError(f"model {path}: no weights there: neither *.safetensors nor {PICKLED}")


def check_activations(folder: Path) -> None:
    """Refuses activations that are not torch's own, which sentence-transformers would replace by tanh."""
    for module, class_name in module_folders(folder).items():
        content = json_object(module / "config.json") if class_name not in (*TRANSFORMERS, "SpladePooling") else {}
        name = content.get("activation_function")
        if name is not None and not str(name).startswith("torch.nn."):
            raise ModelError(f"model {module}: activation {name} is code of its own, which is not run: use another one")


def check_adapter(folder: Path) -> dict[str, Any]:
    """The configuration of a trained adapter of linear layers. Raises ModelError where there is none."""
    config = json_object(folder / ADAPTER)
    if not (folder / ADAPTER).is_file():
        raise ModelError(f"adapter {folder}: no {ADAPTER} there: name a folder that peft has saved an adapter in")
    if (peft_type := config.get("peft_type")) != "LORA":
        raise ModelError(f"adapter {folder}: of type {peft_type}, which is not supported: use LoRA")
    if unknown := [name for name in (*_OF_OTHER_LAYERS, "target_parameters") if config.get(name)]:
        raise ModelError(f"adapter {folder}: has {', '.join(unknown)}, which is not supported: use another one")
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ModelError(f"adapter {folder}: no {ADAPTER_WEIGHTS} there: copy the adapter again, in safetensors")
    return config


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


@in_form
def _shards(folder: Path) -> list[Path]:
    shards = [folder / name for name in sorted(set(read_json(folder / INDEX)["weight_map"].values()))]
    for shard in shards:
        if shard.parent != folder or shard.name in ("", ".."):
            raise ModelError(f"{folder / INDEX}: names files outside the model: do not use it")
        if not shard.is_file():
            raise ModelError(f"model {folder}: {shard.name} is missing, which {INDEX} names: copy the model again")
    return shards


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
