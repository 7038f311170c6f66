"""Which devices compute bfloat16 faster than float32."""

import platform
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

_CPU_FLAGS = {"amx_bf16", "avx512_bf16", "bf16"}
_CUDA_CAPABILITY = 8


def good_at_bf16(device: "torch.device | str") -> bool:
    """Whether `device` has bfloat16 units: a CPU by its flags, a CUDA device from capability 8.0 on."""
    name = str(device)
    if name.startswith("cpu"):
        return bool(_CPU_FLAGS & cpu_flags(Path("/proc/cpuinfo")))
    if name.startswith("cuda"):
        import torch

        return torch.cuda.get_device_capability(device)[0] >= _CUDA_CAPABILITY
    return False


def cpu_flags(path: Path) -> frozenset[str]:
    """The flags of the first CPU in a `cpuinfo` file, `Features` on Arm; none where there is no file."""
    facts = _cpu_facts(path)
    return frozenset((facts.get("flags") or facts.get("Features") or "").split())


def cpu_name() -> str:
    """The name of the first CPU, as far as the system tells."""
    return _cpu_facts(Path("/proc/cpuinfo")).get("model name", platform.machine())


def takes_bf16(precision: Literal["auto", "fp32", "bf16"], device: "torch.device | str") -> bool:
    """Whether a transformer is to compute in bfloat16: `auto` says so where the device is good at it."""
    return precision == "bf16" or (precision == "auto" and good_at_bf16(device))


@cache
def _cpu_facts(path: Path) -> dict[str, str]:
    """The first value under each name in a `cpuinfo` file."""
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    pairs = [(name.strip(), value.strip()) for name, colon, value in (line.partition(":") for line in lines) if colon]
    return dict(reversed(pairs))
