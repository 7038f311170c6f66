"""The base of an adapter: a folder with an adapter alone is its base with the adapter."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from hardneg.encoders.families.adapters.adapter_files import CONFIG, settings_in
from hardneg.encoders.families.adapters.adapter_spec import AdapterSpec
from hardneg.encoders.open.model_files import json_object, module_folders
from hardneg.encoders.open.source import Location, adapted
from hardneg.encoders.spec import ModelSpec
from hardneg.records.errors import ModelError


def network_folder(folder: Path) -> Path:
    """The folder of a transformer's configuration and weights: its own, or that of its adapter's base.

    Raises:
        ModelError: the base is not on this machine.
    """
    if not (folder / CONFIG).is_file():
        return folder
    base = adapted(folder)
    if base.folder is None or not (base.folder / "config.json").is_file():
        raise ModelError(
            f"model {folder}: only an adapter, and its base {base.name!r} is not on this machine: put it there, "
            "or name it: name: BASE, adapter: " + str(folder)
        )
    return base.folder


def network_config(folder: Path) -> dict[str, Any]:
    """The configuration of a transformer, or of its adapter's base. Raises ModelError where there is none here."""
    return json_object(network_folder(folder) / "config.json")


def with_base(spec: ModelSpec, location: Location, fetch: bool = False) -> tuple[ModelSpec, Location]:
    """The base of the adapter in a folder, as a spec with that adapter, and its location; fetch: downloads it.

    Source: `PeftModel.from_pretrained`: all but the adapter is the base's.
    """
    folder = location.path
    _refuse_settings(spec, folder)
    base = adapted(folder)
    base = base.fetched() if fetch else base
    adapter = AdapterSpec(spec.name, spec.revision, save=spec.adapter.save if spec.adapter else "merged")
    return replace(spec, name=base.name, revision=base.revision, adapter=adapter), base


def adapter_of(spec: ModelSpec, folder: Path) -> AdapterSpec | None:
    """The spec's adapter, or else the one in the model's folder.

    Raises:
        ModelError: both have settings, and these differ.
    """
    paths = [path for path, class_name in module_folders(folder).items() if class_name == "Transformer"]
    inside = next((path for path in paths if (path / CONFIG).is_file()), None)
    if inside is None:
        return spec.adapter
    settings = settings_in(inside)
    if spec.adapter is not None and spec.adapter.settings() != settings.settings():
        _refuse_settings(spec, inside)
    return replace(settings, save=spec.adapter.save if spec.adapter else "merged")


def _refuse_settings(spec: ModelSpec, folder: Path) -> None:
    own = spec.adapter
    if own is not None and own != AdapterSpec(save=own.save):
        raise ModelError(f"model {spec.name!r}: {folder} has an adapter already: set nothing of adapter but save")
