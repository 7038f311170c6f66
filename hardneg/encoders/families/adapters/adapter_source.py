"""A spec's adapter: where its files are, what they say, and its part of a model's identity."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from hardneg.encoders.families.adapters.adapter_spec import AUTO, AdapterSpec
from hardneg.encoders.open.model_files import ADAPTER, ADAPTER_WEIGHTS, check_adapter, module_folders
from hardneg.encoders.open.source import Location, adapted, locate
from hardneg.encoders.spec import ModelSpec
from hardneg.records import Lookup, ModelError
from hardneg.store import digest, file_digest

# Versions and paths; whether it was saved to be trained further.
_IGNORED = {"base_model_name_or_path", "revision", "peft_version", "inference_mode", "auto_mapping", "task_type"}


def with_base(spec: ModelSpec, location: Location, fetch: bool = False) -> tuple[ModelSpec, Location]:
    """The base of the adapter in a folder, as a spec with that adapter, and its location; fetch: downloads it.

    Source: `PeftModel.from_pretrained`: all but the adapter is the base's.
    """
    _refuse_settings(spec, location.path)
    base = adapted(location.path)
    base = base.fetched() if fetch else base
    adapter = AdapterSpec(spec.name, spec.revision, save=spec.adapter.save if spec.adapter else "merged")
    return replace(spec, name=base.name, revision=base.revision, adapter=adapter), base


def adapter_of(spec: ModelSpec, folder: Path) -> AdapterSpec | None:
    """The spec's adapter, or else the one in the model's folder. Raises ModelError where their settings differ."""
    paths = [path for path, class_name in module_folders(folder).items() if class_name == "Transformer"]
    inside = next((path for path in paths if (path / ADAPTER).is_file()), None)
    if inside is None:
        return spec.adapter
    settings = settings_in(inside)
    if spec.adapter is not None and spec.adapter.settings() != settings.settings():
        _refuse_settings(spec, inside)
    return replace(settings, save=spec.adapter.save if spec.adapter else "merged")


def _refuse_settings(spec: ModelSpec, folder: Path) -> None:
    if spec.adapter is not None and spec.adapter != AdapterSpec(save=spec.adapter.save):
        raise ModelError(f"model {spec.name!r}: {folder} has an adapter already: set nothing of adapter but save")


def adapter_content(folder: Path) -> list[str]:
    """The content of a trained adapter: its settings and its weights, not its path or that of its base."""
    config = {name: value for name, value in check_adapter(folder).items() if name not in _IGNORED}
    if isinstance(targets := config.get("target_modules"), list):
        config["target_modules"] = sorted(targets)
    return [digest(config), file_digest(folder / ADAPTER_WEIGHTS)]


def adapter_identity(adapter: AdapterSpec) -> dict[str, Any]:
    """The part of an adapter that may change a model: a trained one's content or commit, or a new one's settings.

    Raises:
        ModelError: there is no such adapter, or the hub cannot be reached.
    """
    if adapter.source is None:
        return {**adapter.settings(), "save": adapter.save}
    location = _located(adapter)
    content = adapter_content(location.path) if location.commit is None else [location.name, location.commit]
    return {"content": content, "save": adapter.save}


def adapter_folder(adapter: AdapterSpec) -> Path | None:
    """The folder of a trained adapter's files, downloaded if needed; None for a new one. Raises ModelError."""
    if adapter.source is None:
        return None
    folder = _located(adapter).download([ADAPTER, ADAPTER_WEIGHTS])
    check_adapter(folder)
    return folder


def look_up_adapter(adapter: AdapterSpec | None) -> Lookup:
    """The size of a trained adapter's files, local and to download; nothing for a new one. Raises ModelError."""
    if adapter is None or adapter.source is None:
        return Lookup()
    location = _located(adapter)
    if location.commit is not None:
        return location.look_up()
    check_adapter(location.path)
    return Lookup(there=(location.path / ADAPTER_WEIGHTS).stat().st_size)


def _located(adapter: AdapterSpec) -> Location:
    location = locate(adapter.source or "", adapter.revision)
    try:
        _ = location.commit
    except ModelError as error:
        raise ModelError(f"adapter: {error}") from error
    return location


def settings_in(folder: Path) -> AdapterSpec:
    """The settings of a trained adapter."""
    config = check_adapter(folder)
    targets = config.get("target_modules")
    return AdapterSpec(
        type="dora" if config.get("use_dora") else "rslora" if config.get("use_rslora") else "lora",
        rank=int(config.get("r") or 8),
        alpha=float(config.get("lora_alpha") or 8),
        dropout=float(config.get("lora_dropout") or 0),
        target_modules=targets if isinstance(targets, str) else tuple(sorted(targets or ())),
    )


def noted(adapter: AdapterSpec) -> dict[str, Any]:
    """The settings of an adapter in a saved model's folder, to train it or the next one further."""
    if adapter.save == "apart":
        return {"save": adapter.save}
    folder = adapter_folder(adapter)
    settings = adapter if folder is None else settings_in(folder)
    return {**settings.settings(), "save": adapter.save}


def saved_adapter(content: Any, path: Path) -> AdapterSpec | None:
    """The adapter that `noted` saved. Raises ModelError where it is not of that form."""
    if content is None:
        return None
    try:
        targets = content.get("target_modules", AUTO)
        adapter = AdapterSpec(**{**content, "target_modules": targets if isinstance(targets, str) else tuple(targets)})
        problems = "; ".join(adapter.problems())
    except (TypeError, AttributeError):
        problems = "adapter: not an adapter's settings"
    if problems:
        raise ModelError(f"{path}: {problems}: save the model again")
    return adapter
