"""The processor to compute on and the fast ways on it, by what it can do: a table, so that nothing hangs on a clock.

On a processor with units for bfloat16 a transformer computes in it, its attention is batched products on a CPU and
unpadded on a GPU, and a large exact search multiplies in it. Without them everything is float32.
"""

import os
import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import torch

_AMPERE = (8, 0)  # the first capability of CUDA with units for bfloat16
_CAPS = {
    "ATEN_CPU_CAPABILITY": {"default", "avx2"},
    "ONEDNN_MAX_CPU_ISA": {"sse41", "avx", "avx2", "avx2_vnni", "avx2_vnni_2", "avx512_core", "avx512_core_vnni"},
}
_CAPS["DNNL_MAX_CPU_ISA"] = _CAPS["ONEDNN_MAX_CPU_ISA"]
_LARGE_ON_CPU, _FEW_QUERIES = 1 << 35, 256  # products of numbers; with fewer queries bfloat16 is no faster
_LARGE_ON_GPU, _BLOCK_ON_GPU = 4096 * 65_536, 2048  # scores, queries; with fewer bfloat16 is launches of kernels


@dataclass(frozen=True, slots=True)
class Processor:
    """device: torch's type of it. bf16: whether it has units for products in bfloat16."""

    device: str
    bf16: bool = False

    @property
    def precision(self) -> Literal["fp32", "bf16"]:
        """The precision of a large transformer."""
        return "bf16" if self.bf16 else "fp32"

    def attention(self, half: bool, packed: bool, plain: bool) -> Literal["auto", "batched", "unpadded"]:
        """How a large transformer attends; `auto` is its library's way.

        half: it computes in bfloat16 or float16. packed: it may get packed texts, and torch has the kernel for them.
        plain: its library's way is SDPA in bfloat16.
        """
        if not (self.bf16 and half):
            return "auto"
        if self.device == "cuda":
            return "unpadded" if packed else "auto"
        return "batched" if plain else "auto"

    def onednn(self, half: bool) -> bool:
        """Whether linear layers multiply by a call of oneDNN: up to twice torch's speed in float32, and no slower."""
        return self.device == "cpu" and platform.machine() in {"x86_64", "AMD64"} and (self.bf16 or not half)

    def engine(self, queries: int, vectors: int, dimension: int) -> Literal["torch", "bf16"]:
        """The engine of an exact search: float32 for a small one."""
        if self.device == "cuda":
            large = queries >= _BLOCK_ON_GPU and queries * vectors >= _LARGE_ON_GPU
        else:
            large = queries >= _FEW_QUERIES and queries * vectors * dimension >= _LARGE_ON_CPU
        return "bf16" if self.bf16 and large else "torch"


def processor_of(device: "torch.device") -> Processor:
    """The processor of a device."""
    if device.type == "cpu":
        return Processor("cpu", bf16_on_cpu())
    if device.type != "cuda":
        return Processor(device.type)
    import torch

    return Processor("cuda", torch.cuda.get_device_capability(device) >= _AMPERE)


def bf16_on_cpu() -> bool:
    """Whether the CPU has avx512_bf16 or AMX, and no variable of torch or oneDNN forbids them."""
    if any(os.environ.get(name, "").lower() in capped for name, capped in _CAPS.items()):
        return False
    return not {"avx512_bf16", "amx_bf16"}.isdisjoint(_cpu().get("flags", "").split())


def cpu_name() -> str:
    """Return the name of the first CPU, or its architecture."""
    return _cpu().get("model name") or platform.machine()


@cache
def _cpu(facts: Path = Path("/proc/cpuinfo")) -> dict[str, str]:
    """What Linux tells of the first CPU; nothing elsewhere."""
    try:
        first = facts.read_text(encoding="utf-8", errors="replace").partition("\n\n")[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {name.strip(): value.strip() for name, _, value in pairs}
