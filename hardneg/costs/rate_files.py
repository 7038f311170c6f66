"""Rates in files: those that were measured on this machine, kept in the user's cache folder, and those of others."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hardneg.costs.data_sheets import by_sheet, guessed
from hardneg.costs.estimated_seconds import Basis, Rate
from hardneg.costs.rates import Pace, Rates
from hardneg.records.errors import DataError
from hardneg.records.wording import complaint, mistakes
from hardneg.store.atomic_write import replace_text
from hardneg.store.digest import digest
from hardneg.store.speed_trials import cache_folder, cpu_name

_FOLDER = "rates"

Amount = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Lines(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Scores(_Lines):
    """Of exact search, by the second, among vectors of so many numbers."""

    dimension: int = Field(gt=0)
    scores: Amount


class RateFile(_Lines):
    """What a file of rates may hold: one JSON object.

    device: the GPU's or the CPU's name. cores: of a CPU, for what was not measured. capacity: bytes of a GPU's memory.
    encode, train: paces. search: scores of exact search. codes: that are looked up in a compressed index. tokenise:
    tokens. read, write, between: bytes of the disk, and between machines. All by the second. software: what measured.
    """

    device: str = Field(min_length=1)
    gpu: bool = False
    cores: int | None = Field(default=None, gt=0)
    capacity: Amount | None = None
    encode: tuple[Pace, ...] = ()
    train: tuple[Pace, ...] = ()
    search: Scores | None = None
    codes: Amount | None = None
    tokenise: Amount | None = None
    read: Amount | None = None
    write: Amount | None = None
    between: Amount | None = None
    date: str = ""
    software: str = ""

    def rates(self, basis: Basis) -> Rates:
        """All of them; what the file lacks is by data sheet or guessed, and marked so."""
        whole = by_sheet(self.device) if self.gpu else guessed(cores=self.cores)
        known = {name: Rate(value, basis) for name in _PLAIN if (value := getattr(self, name)) is not None}
        if self.search is not None:
            known["search"] = Rate(2.0 * self.search.dimension * self.search.scores, basis)
        paces = {"encode": self.encode, "train": self.train, "basis": basis}
        named = {"device": self.device, "date": self.date, "capacity": self.capacity or whole.capacity}
        return replace(whole, **known, **paces, **named)  # type: ignore[arg-type]


_PLAIN = ("codes", "tokenise", "read", "write", "between")


class Device(NamedTuple):
    """What rates are kept for: a GPU by its driver's name, or a CPU with so many threads."""

    name: str
    gpu: bool

    @property
    def path(self) -> Path:
        """The file of its rates."""
        return cache_folder() / _FOLDER / f"{digest([self.name, self.gpu])}.json"


def this_cpu() -> Device:
    """This machine's CPU, with the threads that networks compute in."""
    return Device(f"{cpu_name()}, {threads()} threads", False)


def threads() -> int:
    """Those that networks compute in here: what `OMP_NUM_THREADS` sets, or the cores that this process may use."""
    said = os.environ.get("OMP_NUM_THREADS", "")
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(said) if re.fullmatch(r"[1-9]\d{0,3}", said) else own


def measured(device: Device) -> RateFile | None:
    """What was measured of a device of this machine; None where nothing was, or where it cannot be read."""
    try:
        return read_rates(device.path)
    except DataError:
        return None


def remember(device: Device, rates: RateFile) -> None:
    """Stores the rates, replacing those stored before."""
    replace_text(device.path, json.dumps(rates.model_dump(mode="json", exclude_defaults=True), indent=1) + "\n")


def forget_rates() -> int:
    """Forgets all that was measured; returns of how many devices."""
    paths = list((cache_folder() / _FOLDER).glob("*.json"))
    for path in paths:
        path.unlink(missing_ok=True)
    return len(paths)


def read_rates(path: Path) -> RateFile:
    """The file's rates.

    Raises:
        DataError: it cannot be read, or is not what a file of rates may be; one line for each mistake.
    """
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        return RateFile.model_validate(content)
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}") from error
    except ValidationError as error:
        lines = [f"{'.'.join(map(str, item['loc'])) or 'the file'}: {complaint(item)}" for item in mistakes(error)]
        raise DataError("\n".join(f"{path}: {line}" for line in lines)) from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path}: not JSON ({error}): name a file that `doctor --measure` wrote") from error
