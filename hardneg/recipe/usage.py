"""What a block of work takes of a process: memory of its own and of a GPU, on which hardware."""

import os
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from hardneg.runtime.processor import cpu_name

_PROC, _POWER = Path("/proc/self"), Path("/sys/class/powercap")


@contextmanager
def usage(processes: int) -> Iterator[dict[str, Any]]:
    """Measures a block in the first of `processes` processes; the dict it gives is filled when the block ends.

    device: the GPU's name where one held something, else `cpu`. processor: the CPU and its threads. peak_memory: bytes,
    the most that this process held in main memory meanwhile (where the system cannot tell, since it began).
    peak_gpu_memory: bytes, on a GPU only. joules: by `cpu` and `gpu`, of the whole machine meanwhile, where it counts
    them for this user (RAPL, NVML).
    """
    facts: dict[str, Any] = {}
    with suppress(OSError):
        (_PROC / "clear_refs").write_text("5", encoding="ascii")
    if gpu := _cuda():
        gpu.reset_peak_memory_stats()
    before = _joules()
    yield facts
    said = os.environ.get("OMP_NUM_THREADS", "")  # threads that networks compute in, by default all cores
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    threads = said if re.fullmatch(r"[1-9]\d{0,3}", said) else own
    processor, peak = f"{cpu_name()}, {threads} threads", _peak_memory()
    facts |= {"processes": processes, "device": "cpu", "processor": processor, "peak_memory": peak}
    if (cuda := _cuda()) and (peak := int(cuda.max_memory_allocated())):
        facts |= {"device": str(cuda.get_device_name()), "peak_gpu_memory": peak}
    after = _joules()
    if joules := {name: round(after[name] - begun, 3) for name, begun in before.items() if begun < after.get(name, 0)}:
        facts["joules"] = joules  # a counter that began anew is left out


def _peak_memory() -> int:
    try:
        lines = (_PROC / "status").read_text(encoding="ascii", errors="replace").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        scale = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * scale


def _joules() -> dict[str, float]:
    """What the counters of energy say: of the processors' packages, and of the GPU in use."""
    counted = {}
    with suppress(OSError, ValueError):
        files = [folder / "energy_uj" for folder in _POWER.glob("intel-rapl:[0-9]")]
        if files:
            counted["cpu"] = sum(int(file.read_text(encoding="ascii")) for file in files) / 1e6
    if cuda := _cuda():
        with suppress(Exception):  # without the driver's library, or for GPUs that do not count
            import pynvml

            pynvml.nvmlInit()
            handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{cuda.get_device_properties(cuda.current_device()).uuid}")
            counted["gpu"] = pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3
    return counted


def _cuda() -> Any:
    """torch's own module, if it is loaded and a GPU is in use; nothing is loaded for this."""
    torch = sys.modules.get("torch")
    return torch.cuda if torch is not None and torch.cuda.is_initialized() else None
