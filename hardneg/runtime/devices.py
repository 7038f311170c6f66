"""Compute devices, their capabilities, and the precision of their matrix products."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.records import UsageError, suggestion

if TYPE_CHECKING:
    import torch

_DEVICE_TYPES = ("cpu", "cuda", "mps", "xpu")
_AMPERE = (8, 0)  # the first capability of CUDA with units for bfloat16
_CAPS = {
    "ATEN_CPU_CAPABILITY": {"default", "avx2"},
    "ONEDNN_MAX_CPU_ISA": {"sse41", "avx", "avx2", "avx2_vnni", "avx2_vnni_2", "avx512_core", "avx512_core_vnni"},
}
_CAPS["DNNL_MAX_CPU_ISA"] = _CAPS["ONEDNN_MAX_CPU_ISA"]


def has_bf16_units(device: "torch.device") -> bool:
    """Return whether a device multiplies bfloat16 in hardware; other devices emulate it."""
    if device.type != "cuda":
        return device.type == "cpu" and bf16_on_cpu()
    import torch

    return torch.cuda.get_device_capability(device) >= _AMPERE


def bf16_on_cpu() -> bool:
    """Return whether the CPU has avx512_bf16 or AMX, and no environment variable of torch or oneDNN disables it."""
    if any(os.environ.get(name, "").lower() in capped for name, capped in _CAPS.items()):
        return False
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(_cpu().get("flags", "").split())


def cpu_name() -> str:
    """Return the model name of the first CPU, or the machine's architecture if the name is unknown."""
    return _cpu().get("model name") or platform.machine()


@cache
def _cpu(facts: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """Return the properties of the first CPU on Linux; empty on other systems."""
    try:
        first = facts.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}


def check_device(device: str, field: str = "device") -> None:
    """Check that this machine has a device; torch is imported unless the device is `cpu`.

    device: `cpu`, `cuda`, `cuda:1`, `mps`, or another torch device. field: the option's name, for the message.

    Raises UsageError if the machine does not have it; the message lists the available devices.
    """
    if device == "cpu" or device in (known := known_devices()):
        return
    import torch

    device_type = device.partition(":")[0]
    if device_type not in _DEVICE_TYPES:
        reason = f"no such device{suggestion(device_type, _DEVICE_TYPES)}"
    elif device_type in known:
        reason = f"this machine has no {device}"
    else:
        reason = f"torch {torch.__version__} found no {device_type} device here"
    where = f"{{{field}}}" if field.isidentifier() else field
    raise UsageError(f"{where} {device}: {reason}; available: {', '.join(known)}", field)


def known_devices() -> list[str]:
    """Return all device names: `cpu` and, if torch has an accelerator, its type and each device, such as `cuda:0`."""
    import torch

    if not torch.accelerator.is_available():
        return ["cpu"]
    device_type = str(torch.accelerator.current_accelerator()).partition(":")[0]
    return ["cpu", device_type, *(f"{device_type}:{number}" for number in range(torch.accelerator.device_count()))]


@contextmanager
def float32_products(device: "torch.device", tf32: bool = False) -> Iterator[None]:
    """Compute a GPU's float32 matrix products in full precision, or in TF32 if `tf32` is set, inside the block.

    Other devices use float32. TF32 keeps 10 of the 23 mantissa bits and is several times faster. After the block,
    torch's global setting is restored and, since torch 2.9, also the settings of single backends. If these contradict
    the global setting, as after `TrainingArguments(tf32=True)`, the global setting becomes full precision.

    Raises UsageError if TF32 is requested on a device other than a CUDA GPU.
    """
    if device.type != "cuda":
        if tf32:
            raise UsageError(f"tf32 needs a CUDA GPU, but the device is {device.type}; omit tf32")
        yield
        return
    import torch

    backends: Any = torch.backends
    own: list[tuple[Any, str]] = []
    if hasattr(backends, "fp32_precision"):
        for group, part in ((backends, backends.cuda.matmul), (backends.mkldnn, backends.mkldnn.matmul)):
            own.append((part, "none" if part.fp32_precision == group.fp32_precision else part.fp32_precision))
    try:
        before = torch.get_float32_matmul_precision()
    except RuntimeError:
        before = "highest"
    try:
        torch.set_float32_matmul_precision("high" if tf32 else "highest")
        yield
    finally:
        torch.set_float32_matmul_precision(before)
        for part, precision in own:
            part.fp32_precision = precision
