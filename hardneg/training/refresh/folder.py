"""Refreshes on disk: folders that are published by a rename, with the sizes of their files.

<folder>/000003/negatives.arrow     mined negatives; the newest two refreshes are kept
<folder>/000003/manifest.json       the step of the model that mined, counts, seconds, sizes; written last
<folder>/000004.partial/            a refresh being written
<folder>/vectors-000000300/         the corpus encoded by the model of step 300, until its refresh is published
<folder>/made.jsonl                 one line per refresh, kept after the refresh itself is removed
<folder>/segments-0-of-1.npy        segments of each document, counted once
"""

import fcntl
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hardneg.records import errors, layout, wording
from hardneg.store import flush, replace_text
from hardneg.training import checkpoint

MANIFEST = "manifest.json"
_NEWEST = 2


def refresh_facts(
    history: Sequence[checkpoint.Record], refreshes: Sequence[checkpoint.Record], waited: float, documents: int
) -> dict[str, Any]:
    """Summarise the records of all steps and of all refreshes for the manifest.

    waited: the fraction of the time spent waiting. documents: the number that a refresh encodes.
    """
    lags, counts, seconds = [record["lag"] for record in history if "lag" in record], Counter[str](), Counter[str]()
    seconds.update(dict.fromkeys(("encode", "queries", "search", "write"), 0))
    for one in refreshes:
        counts.update(one.get("counts", {}))
        seconds.update(one["seconds"])
    return {
        "refreshes made": len(refreshes),
        "refreshes used": len({record["refresh"] for record in history if "refresh" in record}),
        **({"mean lag": round(sum(lags) / len(lags), 2), "largest lag": max(lags)} if lags else {}),
        "documents encoded": len(refreshes) * documents,
        "queries searched": sum(one["queries"] for one in refreshes),
        **{f"seconds of inference: {name}": round(value, 3) for name, value in seconds.items()},
        "waiting's part of the time": round(waited, 4),
        **counts,
    }


@dataclass(frozen=True, slots=True)
class Refresh:
    """Metadata of one refresh.

    number: counted from 0. step: updates of the model that mined. queries, negatives: their numbers. seconds: by
    operation: `encode` (the corpus), `queries` (encoded), `search`, `write`, and `index` if one is built. counts:
    excluded candidates, and negatives that are relevant to queries of another split.
    """

    number: int
    step: int
    queries: int
    negatives: int
    seconds: Mapping[str, float] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"refresh {self.number}, by the model of step {self.step}"

    def __str__(self) -> str:
        mined = f"{wording.counted(self.negatives, 'negative')} of {wording.counted(self.queries, 'query')}"
        return f"{self.name}: {mined} in {sum(self.seconds.values()):.0f} s"


@dataclass(frozen=True)
class RefreshFolder:
    """The refreshes of one training run in one folder."""

    folder: Path

    def negatives(self, number: int) -> Path:
        return self._path(number) / layout.NEGATIVES

    def partial(self, number: int) -> Path:
        """Create an empty folder to write a refresh into."""
        path = self._path(number).with_suffix(".partial")
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir(parents=True)
        return path

    def publish(self, refresh: Refresh, oldest: int | None = None) -> None:
        """Rename `partial`, and remove the refreshes before `oldest`, or all but the newest two.

        A published refresh is complete: its manifest has the sizes of its files, and is on disk before the rename.
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
        for number in numbers[:-_NEWEST] if oldest is None else [each for each in numbers if each < oldest]:
            self.remove(number)

    def numbers(self) -> list[int]:
        """Return the numbers of the refreshes on disk, ascending."""
        return sorted(int(path.name) for path in self.folder.glob("*") if path.name.isdigit())

    def newest(self, step: int | None = None, report: Callable[[str], None] = lambda line: None) -> Refresh | None:
        """The newest complete refresh mined by a model of at most `step` updates, or None.

        Damaged refreshes are removed and reported.
        """
        for number in reversed(self.numbers()):
            try:
                refresh = self._read(number)
            except errors.ArtifactError as error:
                if self._path(number).exists():  # not removed by another process
                    report(f"{error}; mining it again")
                    self.remove(number)
                continue
            if step is None or refresh.step <= step:
                return refresh
        return None

    def forget_after(self, step: int, report: Callable[[str], None] = lambda line: None) -> None:
        """Remove the refreshes and vectors of models later than `step`, where training resumes."""
        while (newest_one := self.newest(report=report)) and newest_one.step > step:
            self.remove(newest_one.number)
        for path in self.folder.glob("vectors-*"):
            if int(path.name.removeprefix("vectors-")) > step:
                shutil.rmtree(path, ignore_errors=True)

    def remove(self, number: int) -> None:
        """Remove one refresh, with a rename first."""
        doomed = self._path(number).with_suffix(".partial")
        shutil.rmtree(doomed, ignore_errors=True)
        with suppress(OSError):  # another process may have removed it
            os.replace(self._path(number), doomed)
        shutil.rmtree(doomed, ignore_errors=True)

    def vectors(self, step: int) -> Path:
        """The folder of the vectors of the model of `step`."""
        return self.folder / f"vectors-{step:09d}"

    def tidy(self, step: int | None = None) -> None:
        """Remove all vectors but those of `step`, and the partial files of dead processes."""
        current = None if step is None else self.vectors(step)
        for path in [*self.folder.glob("vectors-*"), *self.folder.glob("*.partial")]:
            if path != current:
                shutil.rmtree(path, ignore_errors=True)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock the folder against other miners; the system releases the lock of a dead process."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def records(self) -> list[checkpoint.Record]:
        """Return the records of all refreshes ever published, in order; the last record of one published twice."""
        return list({record["number"]: record for record in self._log().read()}.values())

    def _log(self) -> checkpoint.History:
        return checkpoint.History(self.folder / "made.jsonl")

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
            raise errors.ArtifactError(f"{path}: damaged: its files cannot all be read") from error
        for name, size in sizes.items():
            if there[name] != size:
                raise errors.ArtifactError(f"{path}: damaged: {name} has {there[name]} bytes, its manifest says {size}")
        return refresh
