"""The pieces of a measurement, each kept as soon as it is done: a second call goes on with what is missing."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hardneg.costs.rate_files import Device, RateFile, measured, remember, threads
from hardneg.records.errors import HardnegError
from hardneg.runtime.progress import Progress

SIZES = {"small": (384, 6), "base": (768, 12)}
"""Hidden size and layers of the transformers that are measured: MiniLM-L6's, and BERT-base's."""
_TABLE = 256
_SCRATCH = "scratch"


@dataclass(frozen=True)
class Measuring:
    """Where it is measured.

    device: whose rates they are. torch_device: what networks compute on; None the best there is. folder: for models and
    files that go again, on the disk that is measured.
    """

    device: Device
    torch_device: str | None
    folder: Path


Measure = Callable[[Measuring], object]


def measure(device: Device, torch_device: str | None, disk_folder: Path, progress: Progress) -> Iterator[str]:
    """Measures what is not kept yet; one line for each piece that could not be measured.

    place: a folder on the disk that the store is on.
    """
    from hardneg.encoders.open.resolved import quiet

    missing = {name: work for name, work in PIECES.items() if not has(measured(device), name)}
    with quiet(), tempfile.TemporaryDirectory(dir=disk_folder, prefix="hardneg-measuring-") as folder:
        setting = Measuring(device, torch_device, Path(folder))
        with progress.task("measuring", len(missing), "rates") as task:
            for name, work in missing.items():
                task.describe(name)
                try:
                    _keep(device, name, work(setting))
                except (OSError, RuntimeError, HardnegError) as error:
                    yield f"{name}: could not be measured: {str(error).splitlines()[0]}"
                task.advance()


def has(rates: RateFile | None, name: str) -> bool:
    """Whether a piece is among what was measured."""
    if rates is None:
        return False
    step, _, size = name.partition(" ")
    value = getattr(rates, step)
    if not size:
        return value is not None
    wanted = SIZES.get(size, (_TABLE, 0))
    return any((pace.hidden, pace.layers) == wanted for pace in value)


def _keep(device: Device, name: str, value: Any) -> None:
    """Adds a piece to what is kept."""
    old = measured(device) or RateFile(device=device.name, gpu=device.gpu)
    step, _, size = name.partition(" ")
    content: Mapping[str, Any] = {step: (*getattr(old, step), value) if size else value}
    software = f"hardneg {version('hardneg')}, torch {version('torch')}"
    about = {"date": date.today().isoformat(), "software": software, "cores": None if device.gpu else threads()}
    remember(device, old.model_copy(update={**content, **about}))


def _encoding(size: str) -> Measure:
    def work(setting: Measuring) -> object:
        from hardneg.api.measuring.material import Materials
        from hardneg.api.measuring.networks import encoding

        materials, shape = Materials(setting.folder), SIZES.get(size, (_TABLE, 0))
        folder = materials.transformer(*shape) if size in SIZES else materials.table(_TABLE)
        return encoding(folder, *shape, setting.torch_device)

    return work


def _learning(size: str) -> Measure:
    def work(setting: Measuring) -> object:
        from hardneg.api.measuring.material import Materials
        from hardneg.api.measuring.networks import learning

        return learning(Materials(setting.folder).transformer(*SIZES[size]), *SIZES[size], setting.torch_device)

    return work


def _searching(setting: Measuring) -> object:
    from hardneg.api.measuring.machines import searching

    return searching(setting.folder / "vectors", setting.torch_device)


def _tokenising(setting: Measuring) -> object:
    from hardneg.api.measuring.machines import tokenising
    from hardneg.api.measuring.material import Materials

    return tokenising(Materials(setting.folder).table(1))


def _writing(setting: Measuring) -> object:
    from hardneg.api.measuring.machines import writing

    return writing(setting.folder / _SCRATCH)


def _reading(setting: Measuring) -> object:
    from hardneg.api.measuring.machines import reading, writing

    path = setting.folder / _SCRATCH
    if not path.exists():
        writing(path)
    return reading(path)


PIECES: Mapping[str, Measure] = {
    "write": _writing,
    "read": _reading,
    "tokenise": _tokenising,
    "search": _searching,
    "encode table": _encoding("table"),
    "encode small": _encoding("small"),
    "train small": _learning("small"),
    "encode base": _encoding("base"),
    "train base": _learning("base"),
}
"""By the field of a file of rates, and the size of the network."""
