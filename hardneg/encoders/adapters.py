"""peft adapters: reading their files and settings, adding them to a transformer, and merging them into its weights."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

from hardneg.encoders.open import model_files
from hardneg.encoders.spec import AUTO, SIDES, AdapterSpec, FullSpec, ModelSpec
from hardneg.records import Lookup, ModelError
from hardneg.runtime import derive_seed
from hardneg.store import digest, file_digest

NAME = "default"
"""The name under which peft registers the adapter in a transformer."""
# Versions, paths, and whether the adapter was saved for further training.
_IGNORED = {"base_model_name_or_path", "revision", "peft_version", "inference_mode", "auto_mapping", "task_type"}


def with_base(spec: ModelSpec, location: model_files.Location) -> tuple[ModelSpec, model_files.Location]:
    """Return the spec of an adapter's base model, with the adapter added, and the location of the base model.

    location: the adapter's folder. Raises ModelError if it names no base model, or spec.adapter sets more than `save`.
    Source: `PeftModel.from_pretrained`, which loads everything but the adapter from the base model.
    """
    _refuse_settings(spec, location.path)
    base = model_files.adapted(location.path)
    adapter = AdapterSpec(spec.name, spec.revision, save=spec.adapter.save if spec.adapter else "merged")
    return replace(spec, name=base.name, revision=base.revision, adapter=adapter), base


def adapter_in(folder: Path, spec: ModelSpec) -> AdapterSpec:
    """Return a folder's adapter settings, with `save` from the spec. Raises ModelError if the spec contradicts them."""
    settings = settings_in(folder)
    if spec.adapter is not None and spec.adapter.settings() != settings.settings():
        _refuse_settings(spec, folder)
    return replace(settings, save=spec.adapter.save if spec.adapter else "merged")


def _refuse_settings(spec: ModelSpec, folder: Path) -> None:
    if spec.adapter is not None and spec.adapter != AdapterSpec(save=spec.adapter.save):
        raise ModelError(f"model {spec.name!r}: {folder} already has an adapter, so set only adapter.save")


def adapter_content(folder: Path) -> list[str]:
    """Return the digest of a trained adapter's settings, without paths and versions, and the digest of its weights."""
    config = {name: value for name, value in model_files.check_adapter(folder).items() if name not in _IGNORED}
    if isinstance(targets := config.get("target_modules"), list):
        config["target_modules"] = sorted(targets)
    return [digest(config), file_digest(folder / model_files.ADAPTER_WEIGHTS)]


def adapter_identity(adapter: AdapterSpec) -> dict[str, Any]:
    """Return what identifies an adapter: `save`, and its settings, commit or digests. Raises ModelError if missing."""
    if adapter.source is None:
        return {**adapter.settings(), "save": adapter.save}
    location = _located(adapter)
    content = adapter_content(location.path) if location.commit is None else [location.name, location.commit]
    return {"content": content, "save": adapter.save}


def adapter_folder(adapter: AdapterSpec) -> Path | None:
    """Return a trained adapter's folder, downloaded if needed; None if it is new. Raises ModelError if unavailable."""
    if adapter.source is None:
        return None
    folder = _located(adapter).download([model_files.ADAPTER, model_files.ADAPTER_WEIGHTS])
    model_files.check_adapter(folder)
    return folder


def look_up_adapter(adapter: AdapterSpec | None) -> Lookup:
    """Return an adapter's size in bytes, local and to download; 0 unless trained. Raises ModelError if unavailable."""
    if adapter is None or adapter.source is None:
        return Lookup()
    location = _located(adapter)
    if location.commit is not None:
        return location.look_up()
    model_files.check_adapter(location.path)
    return Lookup(there=(location.path / model_files.ADAPTER_WEIGHTS).stat().st_size)


def _located(adapter: AdapterSpec) -> model_files.Location:
    location = model_files.locate(adapter.source or "", adapter.revision)
    try:
        _ = location.commit
    except ModelError as error:
        raise ModelError(f"adapter: {error}") from error
    return location


def settings_in(folder: Path) -> AdapterSpec:
    """Read a trained adapter's settings from its folder. Raises ModelError if the adapter is missing or unsupported."""
    config = model_files.check_adapter(folder)
    targets = config.get("target_modules")
    return AdapterSpec(
        type="dora" if config.get("use_dora") else "rslora" if config.get("use_rslora") else "lora",
        rank=int(config.get("r") or 8),
        alpha=float(config.get("lora_alpha") or 8),
        dropout=float(config.get("lora_dropout") or 0),
        target_modules=targets if isinstance(targets, str) else tuple(sorted(targets or ())),
    )


def noted(adapter: AdapterSpec) -> dict[str, Any]:
    """Return the adapter settings to save with a model for further training; just `save` if it is `apart`."""
    if adapter.save == "apart":
        return {"save": adapter.save}
    folder = adapter_folder(adapter)
    return {**(adapter if folder is None else settings_in(folder)).settings(), "save": adapter.save}


def saved_adapter(content: Any, path: Path) -> AdapterSpec | None:
    """Return the adapter from `content`, saved by `noted` in `path`, or None. Raises ModelError if it is malformed."""
    if content is None:
        return None
    try:
        targets = content.get("target_modules", AUTO)
        return AdapterSpec(**{**content, "target_modules": targets if isinstance(targets, str) else tuple(targets)})
    except (TypeError, AttributeError) as error:
        raise ModelError(f"{path}: invalid adapter settings; re-save the model") from error


def put_adapters(whole: Any, spec: FullSpec, location: model_files.Location, learns: bool) -> None:
    """Add the spec's adapter, if any, to the transformer of each side. A new one is added only if `learns` is true.

    whole: an nn.Module with the model's modules. location: the model's location; an adapter saved there is loaded.

    Raises ModelError if the adapter does not fit the model or cannot be saved as specified, or peft is not installed.
    """
    from hardneg.encoders import towers

    adapter = spec.adapter
    if adapter is None:
        return
    if adapter.save == "apart" and (spec.twins or towers.has_twins(whole)):
        problem = "sentence-transformers cannot load adapters of two encoders"
        raise ModelError(f"model {spec.name!r}: adapter.save is 'apart', but {problem}; set save: merged")
    folder, folders = adapter_folder(adapter), model_files.read_folder(location.path).sides
    done = set[int]()
    for side in SIDES:
        transformer, own = towers.route(whole, side)[0], folders[side][0]
        if not hasattr(getattr(transformer, "model", None), "add_adapter"):
            raise ModelError(f"model {spec.name!r} has no transformer to add an adapter to; omit model.adapter")
        if id(transformer) in done:
            continue
        done.add(id(transformer))
        if has_adapter(transformer.model):
            _fill(transformer.model, own)
        elif folder is not None or learns:
            base = (location.name, location.commit) if location.on_hub else (str(own.resolve()), None)
            _put_in(transformer.model, adapter, folder, *base)  # the name by which peft opens the base


def _put_in(model: Any, adapter: AdapterSpec, folder: Path | None, base: str, revision: str | None) -> None:
    """Add a folder's adapter, or a new one that initially has no effect, and freeze the model's own weights."""
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
            raise ModelError(f"adapter cannot be added to model {base!r} ({reason}); check its options") from error
    config = model.peft_config[NAME]
    config.base_model_name_or_path, config.revision = base, revision
    if folder is not None:
        _fill(model, folder)
    if adapter.save == "apart" and getattr(config, "use_dora", False):
        raise ModelError(f"adapter {folder} has type dora, which transformers cannot reload; set save: merged")
    _learn(model)


def _fill(model: Any, folder: Path) -> None:
    """Load a trained adapter's weights and make only them trainable. Raises ModelError if they do not fit the model."""
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    try:
        result: Any = set_peft_model_state_dict(model, load_file(str(folder / model_files.ADAPTER_WEIGHTS)), NAME)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())[:200]
        raise ModelError(f"adapter {folder}: does not fit its base model ({reason}); check name and adapter") from error
    _learn(model)
    names = {name for name, weights in model.named_parameters() if weights.requires_grad}
    if others := [*names.intersection(result.missing_keys), *result.unexpected_keys]:
        raise ModelError(
            f"adapter {folder}: does not fit its base model ({min(others)}); set name to the model it was trained on"
        )


def _learn(model: Any) -> None:
    own = set[int]()
    for part in _layers(model):  # except the weights of the layer inside
        own |= {id(each) for each in part.parameters()} - {id(each) for each in part.get_base_layer().parameters()}
    for weights in model.parameters():
        weights.requires_grad_(id(weights) in own)


def _layers(module: Any) -> Iterator[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return (part for part in module.modules() if isinstance(part, BaseTunerLayer))


def has_adapter(model: Any) -> bool:
    """Return whether an nn.Module contains an adapter."""
    return any(hasattr(part, "peft_config") for part in model.modules())


def merged(module: Any) -> Any:
    """Return a copy of an nn.Module with the adapters merged into the weights; all other weights are shared."""
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


def layer_targets(model: Any) -> list[str]:
    """Return the name suffixes of the linear layers in a transformer's blocks. Raises ModelError if there are none."""
    from torch import nn

    def stacks(model: nn.Module) -> Iterator[nn.ModuleList]:  # each outermost list of layers of one class
        for part in model.children():
            if isinstance(part, nn.ModuleList) and len({type(layer) for layer in part}) == 1:
                yield part
            else:
                yield from stacks(part)

    parts = (item for stack in stacks(model) for item in stack[0].named_modules())
    if not (names := dict.fromkeys(name for name, part in parts if isinstance(part, nn.Linear))):
        raise ModelError("adapter.target_modules: no linear layers found in the model; list layer names")
    return list(names)
