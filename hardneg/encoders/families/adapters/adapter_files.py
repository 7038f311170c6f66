"""The files of a trained adapter: its settings, its weights and its digest."""

from pathlib import Path
from typing import Any

from hardneg.encoders.families.adapters.adapter_spec import AdapterSpec
from hardneg.encoders.open.model_files import json_object
from hardneg.records.errors import ModelError
from hardneg.store.digest import digest, file_digest

CONFIG = "adapter_config.json"
WEIGHTS = "adapter_model.safetensors"
# Versions and paths; whether it was saved to be trained further.
_IGNORED = {"base_model_name_or_path", "revision", "peft_version", "inference_mode", "auto_mapping", "task_type"}
_MORE = ("megatron_config", "layer_replication", "modules_to_save", "trainable_token_indices", "target_parameters")
_TYPES = ("LORA", "LOHA", "LOKR")


def adapter_config(folder: Path) -> dict[str, Any]:
    """The configuration of a trained adapter.

    Raises:
        ModelError: there is none, or it is not readable.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise ModelError(f"adapter {folder}: no {CONFIG} there: name a folder that peft has saved an adapter in")
    return json_object(path)


def adapter_weights(folder: Path) -> Path:
    """The file of a trained adapter's weights.

    Raises:
        ModelError: there is none in safetensors.
    """
    path = folder / WEIGHTS
    if not path.is_file():
        raise ModelError(f"adapter {folder}: no {WEIGHTS} there: copy the adapter again, in safetensors")
    return path


def check_adapter(folder: Path) -> None:
    """Refuses a folder without an adapter, and adapters of other than linear layers."""
    config = adapter_config(folder)
    peft_type = config.get("peft_type")
    if peft_type not in _TYPES:
        raise ModelError(f"adapter {folder}: of type {peft_type}, which is not supported: use LoRA, LoHa or LoKr")
    if unknown := [name for name in _MORE if config.get(name)]:
        raise ModelError(f"adapter {folder}: has {', '.join(unknown)}, which is not supported: use another one")
    adapter_weights(folder)


def adapter_content(folder: Path) -> list[str]:
    """The content of a trained adapter: its settings and its weights, not its path or that of its base."""
    check_adapter(folder)
    config = {name: value for name, value in adapter_config(folder).items() if name not in _IGNORED}
    if isinstance(targets := config.get("target_modules"), list):
        config["target_modules"] = sorted(targets)
    return [digest(config), file_digest(adapter_weights(folder))]


def settings_in(folder: Path) -> AdapterSpec:
    """The settings of a trained adapter."""
    config = adapter_config(folder)
    check_adapter(folder)
    peft_type = str(config["peft_type"]).lower()
    if peft_type == "lora":
        peft_type = "dora" if config.get("use_dora") else "rslora" if config.get("use_rslora") else peft_type
    targets, alpha = config.get("target_modules"), config.get("lora_alpha", config.get("alpha"))
    dropout = config.get("lora_dropout", config.get("module_dropout"))
    return AdapterSpec(
        type=peft_type,  # type: ignore[arg-type]
        rank=int(config.get("r") or 8),
        alpha=float(alpha or 8),
        dropout=float(dropout or 0),
        target_modules=targets if isinstance(targets, str) else tuple(sorted(targets or ())),
    )
