"""Adapters by peft: added to a transformer, and merged into a copy of it."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn

from hardneg.encoders.families.adapters.adapter_source import adapter_folder
from hardneg.encoders.families.adapters.adapter_spec import AdapterSpec
from hardneg.encoders.open.model_files import ADAPTER_WEIGHTS, sides
from hardneg.encoders.open.source import Location
from hardneg.encoders.spec import SIDES, FullSpec
from hardneg.encoders.towers import has_twins, route
from hardneg.records import ModelError
from hardneg.runtime import derive_seed

NAME = "default"
"""The adapter's name among those of a transformer, as other programs open it."""


def put_adapters(whole: nn.Module, spec: FullSpec, location: Location, learns: bool) -> None:
    """Puts the spec's adapter into the transformer of each side; a new one only where it `learns`.

    location: the model's. An adapter that the model has already is trained further.

    Raises:
        ModelError: the adapter does not fit the model, or peft is not there.
    """
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
        from peft import PeftConfig
    except ImportError as error:
        raise ModelError("adapters need peft, which is not installed: pip install 'hardneg[peft]'") from error
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive_seed(0, "adapter") >> 1)
        try:
            saved = None if folder is None else PeftConfig.from_pretrained(str(folder), local_files_only=True)
            model.add_adapter(_new(model, adapter) if saved is None else saved, NAME)
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


def _learn(model: Any) -> None:
    """Makes the adapter's weights trainable, and freezes all others of the model."""
    own = set[int]()
    for part in _layers(model):  # without the weights of the layer that it is put around
        own |= {id(each) for each in part.parameters()} - {id(each) for each in part.get_base_layer().parameters()}
    for weights in model.parameters():
        weights.requires_grad_(id(weights) in own)


def has_adapter(model: nn.Module) -> bool:
    """Whether a model has an adapter inside."""
    return any(hasattr(part, "peft_config") for part in model.modules())


def merged(module: nn.Module) -> nn.Module:
    """A copy with adapters merged into its weights; it shares all others with the module."""
    from peft.tuners.tuners_utils import BaseTunerLayer

    changed = {id(weights) for part in _layers(module) for weights in part.parameters()}
    tensors = [*module.parameters(), *module.buffers()]
    memo = {id(tensor): tensor for tensor in tensors if id(tensor) not in changed}
    copied = deepcopy(module, memo)
    for path, part in list(copied.named_modules()):
        if isinstance(part, BaseTunerLayer):
            part.merge()
            copied.set_submodule(path, part.get_base_layer())
        elif hasattr(part, "peft_config"):
            part._hf_peft_config_loaded = False
            del part.peft_config
    return copied


def _layers(module: nn.Module) -> Iterator[Any]:
    from peft.tuners.tuners_utils import BaseTunerLayer

    return (part for part in module.modules() if isinstance(part, BaseTunerLayer))


def _new(model: nn.Module, adapter: AdapterSpec) -> Any:
    import peft

    return peft.LoraConfig(
        r=adapter.rank,
        lora_alpha=adapter.alpha,  # type: ignore[arg-type]
        lora_dropout=adapter.dropout,
        target_modules=list(adapter.targets or layer_targets(model)),
        use_rslora=adapter.type == "rslora",
        use_dora=adapter.type == "dora",
    )


def layer_targets(model: nn.Module) -> list[str]:
    """The linear layers in a transformer's layers, by their names from the layer on; heads and poolers have none.

    Raises:
        ModelError: the model has no list of equal layers.
    """
    names = dict.fromkeys(
        name for stack in _stacks(model) for name, part in stack[0].named_modules() if isinstance(part, nn.Linear)
    )
    if not names:
        raise ModelError("adapter.target_modules: the model has no layers to find them in: name them")
    return list(names)


def _stacks(model: nn.Module) -> Iterator[nn.ModuleList]:
    """Each outermost list of layers of one class."""
    for part in model.children():
        if isinstance(part, nn.ModuleList) and len({type(layer) for layer in part}) == 1:
            yield part
        else:
            yield from _stacks(part)


def _fill(model: Any, folder: Path) -> None:
    """Loads a trained adapter's weights into a model with such an adapter; they are trainable, and no others.

    Raises:
        ModelError: they do not fit this model's layers.
    """
    from peft import set_peft_model_state_dict
    from safetensors.torch import load_file

    try:
        weights = load_file(str(folder / ADAPTER_WEIGHTS))
        result: Any = set_peft_model_state_dict(model, weights, NAME)
    except (OSError, RuntimeError, ValueError, KeyError) as error:
        raise ModelError(f"adapter {folder}: does not fit its base ({' '.join(str(error).split())[:200]})") from error
    _learn(model)
    names = {name for name, weights in model.named_parameters() if weights.requires_grad}
    lacking = names.intersection(result.missing_keys)
    if lacking or result.unexpected_keys:
        name = min([*lacking, *result.unexpected_keys])
        raise ModelError(f"adapter {folder}: does not fit its base ({name}): name the base that it was trained on")
