"""What a machine does in a second, for the estimates of a plan: CPUs as measured, GPUs by their data sheets."""

import math
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hardneg.trials import remembered

_CPU_OPERATIONS = {True: 0.15e12, False: 0.05e12}
"""Useful ones of a network by core, where bfloat16 was found faster and where not."""
_CPU_SCORES = 120e6
"""Scores of exact search, all cores."""
_READ = 2e9
"""Bytes of an index that are read from disk; a fast one's."""
_AT_ONCE = 65_536
"""Queries for which an index is read once."""
NETWORK_PART, PRODUCT_PART = 0.4, 0.5
"""Of what a data sheet promises, the parts that are counted on: of 16-bit operations, and of 32-bit ones."""


class Sheet(NamedTuple):
    """From a GPU's data sheet: dense 16-bit and 32-bit operations a second, and bytes a second of its memory."""

    half: float
    single: float
    memory: float


SHEETS = {
    "H200": Sheet(989e12, 67e12, 4.8e12),
    "H100": Sheet(989e12, 67e12, 3.35e12),
    "A100": Sheet(312e12, 19.5e12, 1.55e12),
    "L40S": Sheet(362e12, 91.6e12, 0.86e12),
    "A10": Sheet(125e12, 31.2e12, 0.6e12),
    "L4": Sheet(121e12, 30.3e12, 0.3e12),
    "V100": Sheet(125e12, 15.7e12, 0.9e12),
    "T4": Sheet(65e12, 8.1e12, 0.32e12),
    "RTX 4090": Sheet(165e12, 82.6e12, 1.0e12),
}
"""NVIDIA's data sheets, without sparsity. Nothing here was measured."""


@dataclass(frozen=True)
class Machine:
    """Where a plan would run.

    gpu: the name of its GPUs, one for each of `processes`; None where networks run on the CPU. sheet: what is known of
    them; None of a CPU, and of a GPU that no data sheet is kept of: then times of networks and searches are NaN.
    """

    gpu: str | None = None
    sheet: Sheet | None = None
    processes: int = 1

    @property
    def operations(self) -> float:
        """Useful operations of a network a second, all processes together."""
        if self.gpu is None:
            return _CPU_OPERATIONS[_in_bf16()] * (os.cpu_count() or 1)
        return math.nan if self.sheet is None else NETWORK_PART * self.sheet.half * self.processes

    def searching(self, queries: float, documents: float, dimension: int, batch: int | None = None) -> float:
        """Seconds of exact search; with `batch`, of so many queries at a time, in an index that stays in memory."""
        if self.gpu is None:
            return queries * documents / _CPU_SCORES
        if self.sheet is None:
            return math.nan
        share, index = queries / self.processes, documents * dimension * 4
        passes = math.ceil(queries / batch) if batch else math.ceil(share / _AT_ONCE)
        product = share * documents * dimension * 2 / (PRODUCT_PART * self.sheet.single)
        return max(passes * index / (self.sheet.memory if batch else _READ), product)


def this_machine(processes: int = 1) -> Machine:
    """The machine that this process is on; its graphics cards are asked for without loading torch."""
    name = next(_gpus(), None)
    if name is None:
        return Machine(processes=processes)
    return Machine(name, sheet_of(name), processes)


def sheet_of(name: str) -> Sheet | None:
    """What is known of a GPU by the name that its driver gives."""
    return next((sheet for known, sheet in SHEETS.items() if re.search(rf"\b{known}\b", name)), None)


def _gpus(driver: Path = Path("/proc/driver/nvidia/gpus"), devices: Path = Path("/dev")) -> Iterator[str]:
    """The names of the NVIDIA cards; "unknown" where there are some that the driver does not name."""
    for path in sorted(driver.glob("*/information")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield from (line.partition(":")[2].strip() for line in lines if line.startswith("Model:"))
    if (devices / "nvidia0").exists() or (devices / "nvidiactl").exists():
        yield "unknown"


def _in_bf16() -> bool:
    """Whether a trial found bfloat16 faster here; before any trial it is not counted on."""
    return any(trial.chosen == "bf16" and " on cpu, " in trial.subject for trial in remembered())
