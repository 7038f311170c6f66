"""The files that hold a module's weights: safetensors, or else PyTorch's own, which are read as tensors alone."""

import pickle
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from hardneg.errors import ModelError

SAFE = "*.safetensors"
PICKLED = "pytorch_model.bin"
INDEX = "pytorch_model.bin.index.json"
PICKLES = ["pytorch_model.bin", "pytorch_model-*.bin"]


def weight_files(place: Path) -> list[Path]:
    """The files of a folder's weights; those of PyTorch only where there are no safetensors; none where it has none.

    Raises:
        ModelError: a file that the index names is missing, or is no file of the folder.
    """
    if safe := sorted(place.glob(SAFE)):
        return safe
    if (place / PICKLED).is_file():
        return [place / PICKLED]
    return _shards(place) if (place / INDEX).is_file() else []


def has_weights(place: Path) -> bool:
    """Whether a folder has the files of its weights, all of them."""
    try:
        return bool(weight_files(place))
    except ModelError:
        return False


def weights_in(paths: Iterable[str]) -> list[str]:
    """Of the paths of a repository, those of the weights that would be read: by folder, as `weight_files` does."""
    found: dict[str, tuple[list[str], list[str]]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        safe, pickled = found.setdefault(folder, ([], []))
        if name.endswith(".safetensors"):
            safe.append(path)
        elif any(Path(name).match(pattern) for pattern in PICKLES):
            pickled.append(path)
    return [path for safe, pickled in found.values() for path in (safe or pickled)]


def load_options(place: Path) -> dict[str, Any]:
    """What transformers is told of the kind of weights in a folder.

    Raises:
        ModelError: PyTorch's files there hold anything but tensors by name; nothing in them is executed.
    """
    files = weight_files(place)
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


def _shards(place: Path) -> list[Path]:
    from hardneg.models.files import read_json

    path = place / INDEX
    try:
        names = sorted(set(read_json(path)["weight_map"].values()))
        shards = [place / name for name in names]
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not an index of weights: copy the model again") from error
    for shard in shards:
        if shard.parent != place or shard.name in ("", ".."):
            raise ModelError(f"{path}: names files outside the model: do not use it")
        if not shard.is_file():
            raise ModelError(f"model {place}: {shard.name} is missing, which {INDEX} names: copy the model again")
    return shards
