"""What a block of work takes of a process: memory of its own and of a GPU, on which hardware."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hardneg.costs.rate_files import this_cpu

_PROC = Path("/proc/self")


@contextmanager
def usage(processes: int) -> Iterator[dict[str, Any]]:
    """Measures a block in the first of `processes` processes; the dict it gives is filled when the block ends.

    device: the GPU's name where one held something, else `cpu`. processor: the CPU and its threads. peak_memory: bytes,
    the most that this process held in main memory meanwhile (where the system cannot tell, since it began).
    peak_gpu_memory: bytes, on a GPU only.
    """
    facts: dict[str, Any] = {}
    with suppress(OSError):
        (_PROC / "clear_refs").write_text("5", encoding="ascii")
    if gpu := _cuda():
        gpu.reset_peak_memory_stats()
    yield facts
    facts |= {"processes": processes, "device": "cpu", "processor": this_cpu().name, "peak_memory": _peak_memory()}
    if (cuda := _cuda()) and (peak := int(cuda.max_memory_allocated())):
        facts |= {"device": str(cuda.get_device_name()), "peak_gpu_memory": peak}


def _peak_memory() -> int:
    try:
        lines = (_PROC / "status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _cuda() -> Any:
    """torch's own module, if it is loaded and a GPU is in use; nothing is loaded for this."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
