"""Adapters, by peft: where their files are and what they say, put into a transformer, and merged into a copy of it."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.encoders.open.model_files import (
    ADAPTER,
    ADAPTER_WEIGHTS,
    Location,
    adapted,
    check_adapter,
    locate,
    module_folders,
    sides,
)
from hardneg.encoders.spec import AUTO, SIDES, AdapterSpec, FullSpec, ModelSpec
from hardneg.records import Lookup, ModelError
from hardneg.runtime import derive_seed
from hardneg.store import digest, file_digest

if TYPE_CHECKING:
    from torch import nn

NAME = "default"
"""The adapter's name among those of a transformer, as other programs open it."""
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
    """A trained adapter's content or commit, or a new one's settings: its part of an identity. Raises ModelError."""
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
    return {**(adapter if folder is None else settings_in(folder)).settings(), "save": adapter.save}


def saved_adapter(content: Any, path: Path) -> AdapterSpec | None:
    """The adapter that `noted` saved. Raises ModelError where it is not of that form."""
    if content is None:
        return None
    try:
        targets = content.get("target_modules", AUTO)
        return AdapterSpec(**{**content, "target_modules": targets if isinstance(targets, str) else tuple(targets)})
    except (TypeError, AttributeError) as error:
        raise ModelError(f"{path}: adapter: not an adapter's settings: save the model again") from error


def put_adapters(whole: "nn.Module", spec: FullSpec, location: Location, learns: bool) -> None:
    """Puts the spec's adapter into the transformer of each side; a new one only where it `learns`.

    location: the model's. An adapter that the model has already is trained further.

    Raises ModelError: the adapter does not fit the model, or peft is not there.
    """
    from hardneg.encoders.towers import has_twins, route

    adapter = spec.adapter
    if adapter is None:
        return
    if adapter.save == "apart" and (spec.twins or has_twins(whole)):
        problem = "sentence-transformers opens no adapters of two encoders"
        raise ModelError(f"model {spec.name!r}: adapter.save apart: {problem}: set save: merged")
    folder = adapter_folder(adapter)
    done = set[int]()
    for side in SIDES:
        transformer, own = route(whole, side)[0], sides(location.path)[side][0]
        if not hasattr(getattr(transformer, "model", None), "add_adapter"):
            raise ModelError(f"model {spec.name!r} has no transformer to put an adapter in: leave model.adapter out")
        if id(transformer) in done:
            continue
        done.add(id(transformer))
        if has_adapter(transformer.model):
            _fill(transformer.model, own)
        elif folder is not None or learns:
            base = (location.name, location.commit) if location.on_hub else (str(own.resolve()), None)
            _put_in(transformer.model, adapter, folder, *base)  # by which others open the base


def _put_in(model: Any, adapter: AdapterSpec, folder: Path | None, base: str, revision: str | None) -> None:
    """Adds an adapter, a new one, which changes nothing at first, or that in a folder; the model's own are frozen."""
    try:
        import peft
    except ImportError as error:
        raise ModelError("adapters need peft, which is not installed: pip install 'hardneg[peft]'") from error
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(0, "adapter") >> 1)
        try:
            config: Any = folder and peft.PeftConfig.from_pretrained(str(folder), local_files_only=True)
            config = config or peft.LoraConfig(
                r=adapter.rank,
                lora_alpha=adapter.alpha,  # type: ignore[arg-type]
                lora_dropout=adapter.dropout,
                target_modules=list(adapter.targets or layer_targets(model)),
                use_rslora=adapter.type == "rslora",
                use_dora=adapter.type == "dora",
            )
            model.add_adapter(config, NAME)
        except (ValueError, TypeError, ImportError, LookupError) as error:
            reason = " ".join(str(error).split())[:200]
            raise ModelError(f"adapter cannot be put into model {base!r} ({reason})") from error
    config = model.peft_config[NAME]
    config.base_model_name_or_path, config.revision = base, revision
    if folder is not None:
        _fill(model, folder)
    if adapter.save == "apart" and getattr(config, "use_dora", False):
        raise ModelError(f"adapter {folder} is a dora, which transformers cannot read back: set save: merged")
    _learn(model)


def _fill(model: Any, folder: Path) -> None:
    """Loads a trained adapter's weights, which alone are trainable. Raises ModelError: they do not fit the layers."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    try:
        result: Any = set_peft_model_state_dict(model, load_file(str(folder / ADAPTER_WEIGHTS)), NAME)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise ModelError(f"adapter {folder}: does not fit its base ({' '.join(str(error).split())[:200]})") from error
    _learn(model)
    names = {name for name, weights in model.named_parameters() if weights.requires_grad}
    if others := [*names.intersection(result.missing_keys), *result.unexpected_keys]:
        raise ModelError(
            f"adapter {folder}: does not fit its base ({min(others)}): name the base that it was trained on"
        )


def _learn(model: Any) -> None:
    """Makes the adapter's weights trainable, and freezes all others of the model."""
    own = set[int]()
    for part in _layers(model):  # without the weights of the layer that it is put around
        own |= {id(each) for each in part.parameters()} - {id(each) for each in part.get_base_layer().parameters()}
    for weights in model.parameters():
        weights.requires_grad_(id(weights) in own)


def _layers(module: "nn.Module") -> Iterator[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return (part for part in module.modules() if isinstance(part, BaseTunerLayer))


def has_adapter(model: "nn.Module") -> bool:
    """Whether a model has an adapter inside."""
    return any(hasattr(part, "peft_config") for part in model.modules())


def merged(module: "nn.Module") -> "nn.Module":
    """A copy with adapters merged into its weights; it shares all others with the module."""
    changed = {id(weights) for part in _layers(module) for weights in part.parameters()}
    tensors = [*module.parameters(), *module.buffers()]
    copied = deepcopy(module, {id(tensor): tensor for tensor in tensors if id(tensor) not in changed})
    layers = {id(part) for part in _layers(copied)}
    for path, part in list(copied.named_modules()):
        if id(part) in layers:
            part.merge()
            copied.set_submodule(path, part.get_base_layer())
        elif hasattr(part, "peft_config"):
            part._hf_peft_config_loaded = False
            del part.peft_config
    return copied


def layer_targets(model: "nn.Module") -> list[str]:
    """Names of linear layers in a transformer's layers, not in heads or poolers. Raises ModelError: it has none."""
    from torch import nn

    def stacks(model: nn.Module) -> Iterator[nn.ModuleList]:  # each outermost list of layers of one class
        for part in model.children():
            if isinstance(part, nn.ModuleList) and len({type(layer) for layer in part}) == 1:
                yield part
            else:
                yield from stacks(part)

    parts = (item for stack in stacks(model) for item in stack[0].named_modules())
    if not (names := dict.fromkeys(name for name, part in parts if isinstance(part, nn.Linear))):
        raise ModelError("adapter.target_modules: the model has no layers to find them in: name them")
    return list(names)
