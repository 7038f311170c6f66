"""Files of a training run: checkpoints, saved models, the history of steps, and refreshes. No file uses pickle."""

import fcntl
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError

from hardneg.records import ArtifactError, TrainingError, counted, layout
from hardneg.store import digest, flush, link_file, replace_text, system_errors

Record = dict[str, Any]
_log = logging.getLogger(__name__)
_MODEL, _OPTIMIZER, _STATE, MANIFEST = "model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"


@dataclass(frozen=True, slots=True)
class TrainState:
    """The progress of a training run.

    step: number of finished steps. best, best_step: best dev metric so far, if measured, and its step. misses: number
    of evaluations since then. stopped: whether patience ran out. choices: settings chosen automatically for the device.
    """

    step: int = 0
    best_step: int | None = None
    best: float | None = None
    misses: int = 0
    stopped: bool = False
    choices: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Checkpoints:
    """The checkpoints of a run: the newest, the best, and the weights kept for a refresh.

    identity: digest of the run; checkpoints with another digest are rejected.
    """

    folder: Path
    identity: str

    def save(self, module: Any, optimizer: Any, state: TrainState) -> None:
        """Write a checkpoint, then remove all checkpoints except the newest and the best."""
        from safetensors.torch import save_file

        final = self._path(state.step)
        partial = final.with_name(f"{final.name}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        with system_errors():
            save_learning(module, partial / _MODEL)
            moments = optimizer.state_dict()["state"].items()
            flat = {f"{index}.{name}": each.contiguous() for index, named in moments for name, each in named.items()}
            save_file(flat, str(partial / _OPTIMIZER))
        content = {"identity": self.identity, **asdict(state)}
        (partial / _STATE).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        for path in [*partial.iterdir(), partial]:
            flush(path)
        shutil.rmtree(final, ignore_errors=True)
        os.replace(partial, final)
        flush(self.folder)
        current = {self._path(step) for step in (state.step, state.best_step) if step is not None}
        for path in {*self.folder.glob("step-*")} - current:
            shutil.rmtree(path, ignore_errors=True)

    def restore(self, module: Any, optimizer: Any) -> TrainState:
        """Load the newest complete checkpoint and return its state, or a fresh state if there is none.

        Raises:
            TrainingError: the checkpoint belongs to another run.
            ArtifactError: the checkpoint cannot be read.
        """
        from safetensors.torch import load_file

        for weight in module.parameters():  # transformers splits fused weights into views, which safetensors refuses
            if weight.untyped_storage().nbytes() > weight.nbytes:
                weight.data = weight.data.contiguous().clone()
        steps = self.steps()
        if not steps:
            return TrainState()
        content = self._read_state(self._path(steps[-1]))
        if content.pop("identity", None) != self.identity:
            other = f"{self.folder} contains checkpoints of a run with a different model, data or options"
            raise TrainingError(f"{other}; use another folder, or remove this one to start afresh")
        self.load_weights(module, steps[-1])
        path, state = self._path(steps[-1]) / _OPTIMIZER, dict[int, dict[str, Any]]()
        try:
            tensors = load_file(str(path))
        except (OSError, SafetensorError) as error:
            raise _unreadable(path, error) from error
        for key, tensor in tensors.items():
            index, name = key.split(".", 1)
            state.setdefault(int(index), {})[name] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})
        return TrainState(**content)

    def choices(self) -> dict[str, str]:
        """Return the `choices` saved in the newest complete checkpoint; empty if there is none."""
        for step in self.steps()[-1:]:
            with suppress(ArtifactError):  # reported when the checkpoint is loaded
                return dict(self._read_state(self._path(step)).get("choices", {}))
        return {}

    def load_weights(self, module: Any, step: int) -> None:
        """Load the weights of `step` from its checkpoint or from the kept file. Raises ArtifactError if unreadable."""
        held, path = self._held(step), self._path(step) / _MODEL
        path = held if held.exists() and not path.exists() else path
        try:
            load_learning(module, path)
        except (OSError, RuntimeError, SafetensorError) as error:
            raise _unreadable(path, error) from error

    def keep_weights(self, step: int) -> None:
        """Keep the weights of `step` even after its checkpoint is removed; weights kept for other steps are deleted."""
        held = link_file(self._path(step) / _MODEL, self._held(step))
        flush(self.folder)
        for path in self.folder.glob("weights-*.safetensors*"):
            if path != held:
                path.unlink(missing_ok=True)

    def _path(self, step: int) -> Path:
        return self.folder / f"step-{step:09d}"

    def _held(self, step: int) -> Path:
        return self.folder / f"weights-{step:09d}.safetensors"

    def steps(self) -> list[int]:
        """Return the steps of all complete checkpoints, ascending."""
        names = (path.name.removeprefix("step-") for path in self.folder.glob("step-*"))
        steps = sorted(int(name) for name in names if name.isdigit())
        files = (_MODEL, _OPTIMIZER, _STATE)
        return [step for step in steps if all((self._path(step) / name).exists() for name in files)]

    def _read_state(self, path: Path) -> dict[str, Any]:
        try:
            content = json.loads((path / _STATE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise _unreadable(path / _STATE, error) from error
        return dict(content)


def save_learning(module: Any, path: Path) -> None:
    """Write the module's state to a safetensors file, omitting frozen weights, which the initial model already has."""
    from safetensors.torch import save_file, save_model

    if fixed := _fixed(module):
        state = module.state_dict().items()
        save_file({name: tensor.contiguous() for name, tensor in state if name not in fixed}, path)
    else:
        save_model(module, str(path))


def load_learning(module: Any, path: Path) -> None:
    """Load weights written by `save_learning`. Raises RuntimeError if weights are missing or unexpected."""
    from safetensors.torch import load_file, load_model

    if not (fixed := _fixed(module)):
        load_model(module, str(path))
        return
    loaded = module.load_state_dict(load_file(str(path)), strict=False)
    if wrong := [*loaded.unexpected_keys, *(name for name in loaded.missing_keys if name not in fixed)]:
        raise RuntimeError(f"weight {wrong[0]} does not match the model")


def _fixed(module: Any) -> set[str]:
    return {name for name, weights in module.named_parameters(remove_duplicate=False) if not weights.requires_grad}


def weights_digest(module: Any) -> str:
    import torch

    content, names = hashlib.blake2b(digest_size=16), []
    for name, tensor in sorted(module.state_dict().items()):
        names.append([name, list(tensor.shape), str(tensor.dtype)])
        content.update(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy())
    return digest([names, content.hexdigest()])


def _unreadable(path: Path, error: Exception) -> ArtifactError:
    reason = str(error).split("\n")[0]
    return ArtifactError(f"{path}: cannot be read ({reason}); remove this checkpoint")


def forget_saved(folder: Path, step: int) -> None:
    """Remove all intermediate models in `folder` that are incomplete or later than `step`, at which the run resumes."""
    for path in folder.iterdir() if folder.exists() else ():
        number = path.name.removeprefix("step-")
        if not number.isdigit() or int(number) > step:
            shutil.rmtree(path)


class History:
    """A JSON Lines file of records, each with a `step`, appended one at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, record: Record) -> None:
        """Append a record completely or not at all, replacing an incomplete last line. Raises OSError if this fails."""
        left = (json.dumps(record) + "\n").encode()
        with self._path.open("a+b", buffering=0) as file:
            whole = file.seek(0, os.SEEK_END)
            file.seek(max(0, whole - 1))
            if whole and file.read(1) != b"\n":
                file.seek(0)
                whole = file.readall().rfind(b"\n") + 1
                file.truncate(whole)
            try:
                while left:
                    left = left[file.write(left) :]
            except OSError:
                with suppress(OSError):
                    file.truncate(whole)
                raise

    def sync(self) -> None:
        with self._path.open("a") as file:
            os.fsync(file.fileno())

    def read(self) -> list[Record]:
        """Return all complete records, skipping damaged lines with a warning; none if the file is missing."""
        if not self._path.exists():
            return []
        records: list[Record] = []
        for number, line in enumerate(self._path.read_text(encoding="utf-8").split("\n")[:-1], 1):
            record = None
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
            if isinstance(record, dict):
                records.append(record)
            else:
                _log.warning("%s:%d: skipped an incomplete record", self._path, number)
        return records

    def truncate(self, step: int) -> None:
        """Remove the records of all steps after `step`, and damaged lines."""
        records = [record for record in self.read() if record["step"] <= step]
        replace_text(self._path, "".join(json.dumps(record) + "\n" for record in records))


@dataclass(frozen=True, slots=True)
class Refresh:
    """Metadata of one refresh.

    number: counted from 0. step: training step of the model that mined it. queries: number of queries mined for.
    negatives: number of negatives. seconds: time for `encode` (corpus), `queries`, `search`, `write`, and any `index`.
    counts: dropped candidates by reason, and negatives that are relevant to queries of another split, by split.
    """

    number: int
    step: int
    queries: int
    negatives: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"refresh {self.number}, mined with the model of step {self.step}"

    def __str__(self) -> str:
        mined = f"{counted(self.negatives, 'negative')} for {counted(self.queries, 'query')}"
        return f"{self.name}: {mined} in {sum(self.seconds.values()):.0f} s"


@dataclass(frozen=True)
class RefreshFolder:
    """The refreshes of one training run, each published by renaming its folder.

    <folder>/000003/negatives.arrow     mined negatives; the newest two refreshes are kept
    <folder>/000003/manifest.json       the step of the model that mined it, counts, seconds, sizes; written last
    <folder>/000004.partial/            a refresh that is being written
    <folder>/vectors-000000300/         the corpus encoded by the model of step 300, until its refresh is published
    <folder>/made.jsonl                 one line per refresh, kept when the refresh itself is removed
    <folder>/segments-0-of-1.npy        number of segments of each document, counted once
    """

    folder: Path

    def negatives(self, number: int) -> Path:
        return self._path(number) / layout.NEGATIVES

    def partial(self, number: int) -> Path:
        """Create and return an empty folder to write refresh `number` in, removing an unfinished one."""
        path = self._path(number).with_suffix(".partial")
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def publish(self, refresh: Refresh, oldest: int | None = None) -> None:
        """Publish a refresh from its partial folder; remove refreshes before `oldest`, by default all but the last two.

        A published refresh is complete: its manifest lists the file sizes and is on disk before the rename.
        """
        partial, final = self._path(refresh.number).with_suffix(".partial"), self._path(refresh.number)
        sizes = {path.name: path.stat().st_size for path in partial.iterdir()}
        replace_text(partial / MANIFEST, json.dumps({**asdict(refresh), "files": sizes}, indent=1) + "\n")
        flush(partial)
        self._log().add(asdict(refresh))
        if final.exists():
            shutil.rmtree(final)
        os.replace(partial, final)
        flush(self.folder)
        numbers = self.numbers()
        for number in numbers[:-2] if oldest is None else [each for each in numbers if each < oldest]:
            self.remove(number)

    def numbers(self) -> list[int]:
        """Return the numbers of the refreshes on disk, ascending."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdigit())

    def newest(self, step: int | None = None, report: Callable[[str], None] = lambda line: None) -> Refresh | None:
        """Return the newest complete refresh, or None. With `step`, ignore refreshes mined with models of later steps.

        Damaged refreshes are removed and reported. report: function that receives each message.
        """
        for number in reversed(self.numbers()):
            try:
                refresh = self._read(number)
            except ArtifactError as error:
                if self._path(number).exists():  # not removed by another process
                    report(f"{error}; mining it again")
                    self.remove(number)
                continue
            if step is None or refresh.step <= step:
                return refresh
        return None

    def forget_after(self, step: int, report: Callable[[str], None] = lambda line: None) -> None:
        """Remove refreshes and corpus vectors of models later than `step`, at which training resumes."""
        while (newest_one := self.newest(report=report)) and newest_one.step > step:
            self.remove(newest_one.number)
        for path in self.folder.glob("vectors-*"):
            if int(path.name.removeprefix("vectors-")) > step:
                shutil.rmtree(path, ignore_errors=True)

    def remove(self, number: int) -> None:
        """Remove a refresh; its folder is renamed first, so that no partly removed refresh is read."""
        doomed = self._path(number).with_suffix(".partial")
        shutil.rmtree(doomed, ignore_errors=True)
        with suppress(OSError):  # another process may have removed it
            os.replace(self._path(number), doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def vectors(self, step: int) -> Path:
        """Return the folder for the corpus vectors that the model of `step` computes."""
        return self.folder / f"vectors-{step:09d}"

    def tidy(self, step: int | None = None) -> None:
        """Remove leftovers of dead processes: partial refreshes, and corpus vectors except those of `step`, if set."""
        current = None if step is None else self.vectors(step)
        for path in [*self.folder.glob("vectors-*"), *self.folder.glob("*.partial")]:
            if path != current:
                shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder during the block, so that only one process mines; the lock of a dead process is released."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def records(self) -> list[Record]:
        """Return the records of all published refreshes in order; only the last record of each refresh counts."""
        return list({record["number"]: record for record in self._log().read()}.values())

    def _log(self) -> History:
        return History(self.folder / "made.jsonl")

    def _path(self, number: int) -> Path:
        return self.folder / f"{number:06d}"

    def _read(self, number: int) -> Refresh:
        path = self._path(number)
        try:
            manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
            sizes = manifest.pop("files")
            refresh = Refresh(**manifest)
            there = {name: (path / name).stat().st_size for name in sizes}
        except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            raise ArtifactError(f"{path}: damaged (a file is missing or unreadable)") from error
        for name, size in sizes.items():
            if there[name] != size:
                raise ArtifactError(f"{path}: damaged ({name} has {there[name]} bytes instead of {size})")
        return refresh
