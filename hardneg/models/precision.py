"""Which devices compute bfloat16 faster than float32."""

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

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


@cache
def cpu_flags(path: Path) -> frozenset[str]:
    """The flags of the first CPU in a `cpuinfo` file, `Features` on Arm; none where there is no file."""
    if not path.is_file():
        return frozenset()
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()
