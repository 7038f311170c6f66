"""The files that make up a model's folder."""

import json
from pathlib import Path
from typing import Any

from hardneg.errors import ModelError
from hardneg.models.spec import KINDS, Kind
from hardneg.models.weights import PICKLED, weight_files

ROUTER = "router_config.json"


def module_folders(folder: Path) -> dict[Path, str]:
    """The folders of a model's modules with their class names, in order; a transformers folder is one."""
    path = folder / "modules.json"
    if not path.exists():
        return {folder: "Transformer"}
    try:
        modules = {folder / module["path"]: module["type"].rsplit(".")[-1] for module in read_json(path)}
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not a list of modules with path and type: copy the model again") from error
    return _routed(folder) if "Router" in modules.values() else modules


def routes(folder: Path) -> list[Any]:
    """What a Router says of its routes, in a list; an empty one for a model that has none."""
    path = folder / ROUTER
    return [read_json(path).get("structure")] if path.exists() else []


def sides(folder: Path) -> dict[Kind, list[Path]]:
    """The folders of the modules that queries and documents pass through, in order."""
    places = list(module_folders(folder))
    structure = next(iter(routes(folder)), None) or {}
    by_name = {place.name: place for place in places}
    own = {kind: [by_name[name] for name in structure.get(kind, ()) if name in by_name] for kind in KINDS}
    return {kind: own[kind] or places for kind in KINDS}


def _routed(folder: Path) -> dict[Path, str]:
    """The folders of the modules on both routes; they must lie in the model's own."""
    path = folder / ROUTER
    try:
        modules = {folder / name: kind.rsplit(".")[-1] for name, kind in read_json(path)["types"].items()}
    except (OSError, KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not a Router's modules and routes: copy the model again") from error
    if any(place.parent != folder or place.name == ".." for place in modules):
        raise ModelError(f"{path}: names folders outside the model: do not use it")
    return modules


def check_files(folder: Path) -> None:
    """Refuses a folder that cannot be opened safely and whole.

    Raises:
        ModelError: no configuration or tokenizer, no weights or not all of them, or only an adapter.
    """
    places = module_folders(folder)
    encoders = [place for place, kind in places.items() if kind == "Transformer"] or [folder]
    for encoder in encoders:
        if (encoder / "adapter_config.json").exists():
            raise ModelError(f"model {encoder}: only an adapter: merge it into its base model and save that")
        if not (encoder / "config.json").is_file():
            raise ModelError(f"model {encoder}: no config.json there: name a folder that holds a model")
        check_tokenizer_files(encoder)
    for place, kind in places.items():
        if not weight_files(place) and (place in encoders or kind in _WEIGHED):
            raise ModelError(f"model {place}: no weights there: neither *.safetensors nor {PICKLED}")


_WEIGHED = {"Dense", "LayerNorm"}
_TOKENIZERS = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model", "*.tiktoken", "*.vocab", "bpe.codes")
_OF_BYTES = {"ByT5Tokenizer", "CanineTokenizer", "PerceiverTokenizer"}  # they have no vocabulary to keep in files


def check_tokenizer_files(folder: Path) -> None:
    """Refuses a transformer's folder without a tokenizer: an empty one would be made, which reads all texts as equal.

    Raises:
        ModelError: no file of a tokenizer is there.
    """
    config = folder / "tokenizer_config.json"
    made = read_json(config) if config.is_file() else {}
    if isinstance(made, dict) and made.get("tokenizer_class") in _OF_BYTES:
        return
    if not any(True for pattern in _TOKENIZERS for _ in folder.glob(pattern)):
        raise ModelError(f"model {folder}: no tokenizer there: copy the model again, with its tokenizer's files")


def check_activations(folder: Path) -> None:
    """Refuses activations that are not torch's own, which sentence-transformers would replace by tanh.

    Raises:
        ModelError: a dense layer has one.
    """
    for place, kind in module_folders(folder).items():
        path = place / "config.json"
        content = read_json(path) if kind != "Transformer" and path.is_file() else {}
        name = content.get("activation_function") if isinstance(content, dict) else None
        if name is not None and not str(name).startswith("torch.nn."):
            raise ModelError(f"model {place}: activation {name} is code of its own, which is not run: use another one")


def read_json(path: Path) -> Any:
    """What a JSON file of a model holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: not readable as JSON ({error}): copy the model again") from error
