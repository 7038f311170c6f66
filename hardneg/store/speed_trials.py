"""Speed trials: the fastest of several ways on this machine, timed for about a second and then remembered.

A choice changes speed, and results by rounding. So it is made once per machine, kept in the user's cache folder,
reported in the manifests of the stages that used it, and kept in the checkpoints of a training.
"""

import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hardneg.runtime.distributed import from_whoever_asks_first
from hardneg.store.atomic_write import replace_text
from hardneg.store.digest import digest

if TYPE_CHECKING:
    import torch

Way = Callable[[], Callable[[], object]]
"""Prepares one way, and returns the function to time."""

_CLEARLY = 0.95  # of the first way's time: another way must be faster than that
_SECONDS, _FEWEST, _MOST = 1.0, 5, 15  # of timing, and rounds
_FOLDER = "trials"
TRIAL = "trial/"
"""The prefix of a subject when several processes share one choice."""

_known: dict[Path, str] = {}
_kept: dict[str, str] = {}
_listening: list[tuple[dict[str, str], Path | None]] = []


@dataclass(frozen=True, slots=True)
class Trial:
    """The choice for `subject` on `machine`, and the milliseconds of each way."""

    subject: str
    machine: str
    chosen: str
    milliseconds: Mapping[str, float]

    @property
    def summary(self) -> str:
        """The choice and its reason in words."""
        others = [f"{name} {taken:.3g} ms" for name, taken in self.milliseconds.items() if name != self.chosen]
        return f"{self.subject}: {self.chosen} ({self.milliseconds[self.chosen]:.3g} ms, {', '.join(others)})"


def choose(subject: str, machine: str, ways: Mapping[str, Way]) -> str:
    """Return the name of the fastest way: kept by a training, remembered on this machine, or found by a trial.

    The first way is taken unless another one is clearly faster. Of several processes the one that asks first decides
    for all. A memory that cannot be written costs a trial in each process, and does no other harm.

    Args:
        subject: the task and the type of device; equal words mean the same choice.
        machine: what else the times depend on, from `machine_of`.
        ways: by name, the function that prepares each way.
    """
    chosen = _kept.get(subject, "")
    if chosen not in ways:
        path = cache_folder() / _FOLDER / f"{digest([subject, machine])}.json"
        if _known.get(path) not in ways:
            _known[path] = from_whoever_asks_first(TRIAL + subject, lambda: _tried(path, subject, machine, ways))
        chosen = _known[path]
    for choices, file in _listening:
        if choices.get(subject) != chosen:
            choices[subject] = chosen
            if file is not None:
                replace_text(file, json.dumps({TRIAL + name: way for name, way in choices.items()}, indent=1) + "\n")
    return chosen


@contextmanager
def noted(kept: Mapping[str, str] | None = None, file: Path | None = None) -> Iterator[dict[str, str]]:
    """Collect the choices made in the block, by subject; those in `kept` take precedence over remembered ones.

    file: keeps them for a resumed run; those that an earlier run left there count as kept.
    """
    before, choices = dict(_kept), dict(kept or {})
    with suppress(OSError, ValueError):
        left = json.loads(file.read_text(encoding="utf-8")) if file is not None else {}
        choices |= {name.removeprefix(TRIAL): str(way) for name, way in dict(left).items()}
    _kept.update(choices)
    _listening.append((choices, file))
    try:
        yield choices
    finally:
        _listening[:] = [other for other in _listening if other[0] is not choices]
        _kept.clear()
        _kept.update(before)


def remembered() -> list[Trial]:
    """Return the remembered trials of this user, by subject."""
    trials = [_read(path) for path in sorted((cache_folder() / _FOLDER).glob("*.json"))]
    return sorted((trial for trial in trials if trial is not None), key=lambda trial: (trial.subject, trial.machine))


def forget() -> int:
    """Forget all trials, so that each is made again when needed; return how many there were."""
    paths = list((cache_folder() / _FOLDER).glob("*.json"))
    for path in paths:
        path.unlink(missing_ok=True)
    _known.clear()
    return len(paths)


def machine_of(device: "torch.device") -> str:
    """The device's name, threads and torch's version."""
    import torch

    where = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{device.type} {cpu_name()}"
    return f"{where}, {torch.get_num_threads()} threads, torch {torch.__version__}"


def cache_folder() -> Path:
    """Return the folder of what is kept between runs, by the XDG rule."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hardneg"


@cache
def cpu_name() -> str:
    """Return the name of the first CPU, or its architecture."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return platform.machine()


def _tried(path: Path, subject: str, machine: str, ways: Mapping[str, Way]) -> str:
    """Return the remembered choice or that of a trial; one that another process remembered meanwhile wins."""
    if (old := _read(path)) is not None and old.chosen in ways and ways.keys() <= old.milliseconds.keys():
        return old.chosen
    with suppress(OSError):  # it is damaged, or of other ways
        path.unlink()
    seconds = _fastest({name: way() for name, way in ways.items()})
    first, best = next(iter(ways)), min(seconds, key=lambda name: seconds[name])
    chosen = best if seconds[best] < _CLEARLY * seconds[first] else first
    if math.inf in seconds.values():
        return chosen
    trial = Trial(subject, machine, chosen, {name: round(1000 * taken, 4) for name, taken in seconds.items()})
    return _remember(path, trial).chosen


def _fastest(ways: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Seconds of each way's fastest round, one after the other in each; infinite for one that fails.

    Other work on the machine only adds to a round, so the fastest is what repeats; medians of a busy minute do not.
    """
    end = time.monotonic() + _SECONDS
    taken: dict[str, list[float]] = {name: [_seconds(run)] for name, run in ways.items()}  # the first is to warm up
    rounds = 0
    while rounds < _FEWEST or (rounds < _MOST and time.monotonic() < end):
        for name, run in ways.items():
            taken[name].append(_seconds(run) if math.isfinite(taken[name][0]) else math.inf)
        rounds += 1
    return {name: min(values[1:]) for name, values in taken.items()}


def _seconds(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    try:
        run()
    except (RuntimeError, TypeError, ValueError):  # a network that takes other inputs, or a device without the means
        return math.inf
    return time.perf_counter() - start


def _read(path: Path) -> Trial | None:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8"))
        trial = Trial(**content)
        return trial if trial.summary else None
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None


def _remember(path: Path, trial: Trial) -> Trial:
    """Keeps a trial unless another process has kept one; returns the one that is kept."""
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    with suppress(OSError):
        replace_text(aside, json.dumps(asdict(trial), indent=1) + "\n")
        try:
            os.link(aside, path)
        except FileExistsError:
            return _read(path) or trial
        except OSError:
            os.replace(aside, path)
        finally:
            aside.unlink(missing_ok=True)
    return trial
