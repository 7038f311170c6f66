"""The files that make up a model's folder."""

import json
from pathlib import Path
from typing import Any

from hardneg.errors import ModelError


def module_folders(folder: Path) -> dict[Path, str]:
    """The folders of a model's modules with their class names, in order; a transformers folder is one."""
    path = folder / "modules.json"
    if not path.exists():
        return {folder: "Transformer"}
    try:
        return {folder / module["path"]: module["type"].rsplit(".")[-1] for module in read_json(path)}
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelError(f"{path}: not a list of modules with path and type: copy the model again") from error


def check_files(folder: Path) -> None:
    """Refuses a folder that cannot be opened safely and whole.

    Raises:
        ModelError: no configuration, weights in a pickle or none at all, or only an adapter.
    """
    places = module_folders(folder)
    encoder = next(iter(places), folder)
    if (encoder / "adapter_config.json").exists():
        raise ModelError(f"model {encoder}: only an adapter: merge it into its base model and save that")
    if not (encoder / "config.json").is_file():
        raise ModelError(f"model {encoder}: no config.json there: name a folder that holds a model")
    for place in places:
        pickled = (place / "pytorch_model.bin").exists()
        if (pickled or place == encoder) and not any(place.glob("*.safetensors")):
            raise ModelError(f"model {place}: no *.safetensors there: save the model again in that format")


def read_json(path: Path) -> Any:
    """What a JSON file of a model holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ModelError(f"{path}: not readable as JSON ({error}): copy the model again") from error
