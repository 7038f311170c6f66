"""Where a plan would run, and how long that takes there: by rates of a CPU or of a GPU, never of one for the other."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hardneg.costs.data_sheets import SHEETS, by_sheet, guessed
from hardneg.costs.estimated_seconds import EstimatedSeconds
from hardneg.costs.rate_files import Device, measured, read_rates, this_cpu
from hardneg.costs.rates import Rates
from hardneg.records.errors import UsageError
from hardneg.runtime.processor import bf16_on_cpu

RESIDENT_PART = 0.75
"""Of a GPU's memory, what an index may take that stays there while a network is trained."""
_AT_ONCE = 65_536
"""Queries for which an index is read once."""
_UPDATED = 2.5e8
"""Weights that a CPU's core changes in a second of a training by AdamW."""


@dataclass(frozen=True)
class Machine:
    """Where a plan would run.

    rates: of each GPU, or of a machine's CPU. processes: in all; each has a GPU, or a share of its machine's cores.
    machines: over which they are spread.
    """

    rates: Rates = field(default_factory=guessed)
    processes: int = 1
    machines: int = 1

    @property
    def gpu(self) -> str | None:
        """The name of its GPUs, one for each process; None where networks run on the CPU."""
        return self.rates.device if self.rates.gpu else None

    @property
    def here(self) -> bool:
        """Whether it is this machine, as far as its device and their number show."""
        return self.machines == 1 and self.rates.device.startswith(this_device().name.partition(",")[0])

    @property
    def devices(self) -> int:
        """How many compute beside each other: GPUs, or machines."""
        return self.processes if self.rates.gpu else self.machines

    def network(self, operations: float, a_token: float, learning: bool = False) -> EstimatedSeconds:
        """What so many operations of a network take that has `a_token` of them for a token."""
        return self.rates.of_network(a_token, learning).seconds(operations, self.devices)

    def tokenising(self, tokens: float) -> EstimatedSeconds:
        """What it takes to make so many tokens of texts: by a machine's cores, or by those guessed for each GPU."""
        rate = self.rates.tokenise
        return rate.seconds(tokens, self.devices if rate.basis == "guess" else self.machines)

    def looking_up(self, tokens: float) -> EstimatedSeconds:
        """What so many tokens take in a model that is a table, made of texts."""
        return self.rates.table.seconds(tokens, self.machines)

    def updating(self, weights: float) -> EstimatedSeconds:
        """What a CPU takes to change so many weights in a training's steps; next to nothing on a GPU."""
        return EstimatedSeconds.of(0 if self.rates.gpu else weights / _UPDATED)

    def products(self, operations: float) -> EstimatedSeconds:
        """What so many multiplications and additions of large matrices of 32-bit numbers take."""
        return self.rates.search.seconds(operations, self.devices)

    def codes(self, count: float) -> EstimatedSeconds:
        """What it takes to look up so many codes of compressed vectors."""
        return self.rates.codes.seconds(count, self.devices)

    def writing(self, count: float) -> EstimatedSeconds:
        """What so many bytes take to be written by one machine."""
        return self.rates.write.seconds(count)

    def sending(self, count: float) -> EstimatedSeconds:
        """What so many bytes take that machines send each other, all at once."""
        return self.rates.between.seconds(count, self.machines)

    def searching(self, queries: float, documents: float, dimension: int, batch: int | None = None) -> EstimatedSeconds:
        """Exact search; with `batch`, of so many queries at a time, in an index that stays in memory where it can."""
        product, index = self.products(2.0 * queries * documents * dimension), 4.0 * documents * dimension
        if not batch:
            return max(product, self.rates.read.seconds(index * math.ceil(queries / self.processes / _AT_ONCE)))
        passes = math.ceil(queries / batch)
        if not self.rates.gpu:
            return product
        return max(product, (self.rates.resident if self.keeps(index) else self.rates.read).seconds(index * passes))

    def keeps(self, index: float) -> bool:
        """Whether an index of so many bytes stays on a GPU between the steps of a training."""
        return not self.rates.capacity or index <= RESIDENT_PART * self.rates.capacity


def this_machine(processes: int = 1) -> Machine:
    """The machine that this process is on, as measured where it was; its graphics cards are detected without torch."""
    return Machine(_own_rates(), processes)


def named(rates: str | None, machines: int = 1, gpus: int | None = None) -> Machine:
    """So many machines of so many GPUs each, with rates by name, from a file, or those of this machine.

    Raises:
        UsageError: there are no rates of that name, or they are not of a GPU where GPUs are requested.
        DataError: the file cannot be read, or holds something else.
    """
    of_each = _own_rates() if rates is None else _of_name(rates)
    if gpus and not of_each.gpu:
        source = "this machine has no GPU" if rates is None else f"{rates} holds rates of a CPU"
        advice = f"a CPU's rates do not apply to GPUs: set {{rates}} to {_known_rates()}"
        raise UsageError(f"{{gpus}} {gpus}: {source}, and {advice}", "gpus", "rates")
    return Machine(of_each, machines * (gpus or 1), machines)


def _of_name(name: str) -> Rates:
    """By a data sheet's name, or from a file."""
    known = {sheet.lower(): sheet for sheet in SHEETS}
    if (sheet := known.get(name.lower().replace("-", " "))) is not None:
        return by_sheet(sheet)
    if not Path(name).exists():
        raise UsageError(f"{{rates}} {name}: no file of that name; give {_known_rates()}", "rates")
    return read_rates(Path(name)).rates("stated")


def _known_rates() -> str:
    return f"one of {', '.join(sorted(name.lower() for name in SHEETS))}, or a file of rates"


def this_device() -> Device:
    """What rates are kept for here: the first GPU, or the CPU."""
    name = next(_gpus(), None)
    return this_cpu() if name is None else Device(name, True)


def _own_rates() -> Rates:
    """Rates of this machine: those that were measured on the same kind of device, a data sheet's, or guesses."""
    device = this_device()
    if (own := measured(device)) is not None:
        return own.rates("measured")
    if device.gpu:
        return by_sheet(device.name)
    return guessed(bf16_on_cpu())


def _gpus(driver: Path = Path("/proc/driver/nvidia/gpus"), devices: Path = Path("/dev")) -> Iterator[str]:
    """The names of the NVIDIA cards; "unknown" where there are some that the driver does not name."""
    for path in sorted(driver.glob("*/information")):
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        yield from (line.partition(":")[2].strip() for line in lines if line.startswith("Model:"))
    if (devices / "nvidia0").exists() or (devices / "nvidiactl").exists():
        yield "unknown"
