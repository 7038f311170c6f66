"""An index in shards, as earlier versions wrote it: `shards.json` lists index folders of ranges of its rows."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.records import DOC_IDS, SHARDS, ArtifactError
from hardneg.store import MANIFEST, link_file

_VERSION = 1


@dataclass(frozen=True)
class Shard:
    """location: a folder's name. rows: documents or segments."""

    location: str
    rows: int


@dataclass(frozen=True, eq=False)
class Shards:
    """The shards of an index folder, in the order of their rows; dimension: of its vectors, 0 where it has none."""

    folder: Path
    listed: Sequence[Shard]
    dimension: int = 0

    @classmethod
    def of(cls, folder: Path) -> "Shards | None":
        """The shards that a folder lists; None where it is one itself.

        Raises:
            ArtifactError: the list is damaged, or a newer hardneg wrote it.
        """
        path = folder / SHARDS
        if not path.exists():
            return None
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
            version = int(said["version"])
            items = said["shards"] if version == _VERSION else []
            listed = [Shard(item["place"], item["rows"]) for item in items]
            dimension = int(said.get("dimension", 0))
        except (OSError, ValueError, RecursionError, TypeError, KeyError) as error:
            raise ArtifactError(f"{path}: damaged ({error!r}): encode the corpus again") from error
        if version != _VERSION or not listed:
            raise ArtifactError(f"{path}: version {version} with {len(listed)} shards: upgrade hardneg")
        return cls(folder, listed, dimension)

    @cached_property
    def first(self) -> NDArray[np.int64]:
        """int64 [S + 1], the first row of each shard, and how many rows there are."""
        return np.cumsum([0, *(shard.rows for shard in self.listed)], dtype=np.int64)

    def link(self, folder: Path, names: Sequence[str]) -> None:
        """Puts `names` and the shards into another folder too, as hard links or copies; the list last."""
        own = [self.of_shard(number) for number, shard in enumerate(self.listed) if shard.location]
        shards = [str(path.relative_to(self.folder)) for shard in own for path in sorted(shard.iterdir())]
        folder.mkdir(parents=True, exist_ok=True)
        for name in (*names, *shards, SHARDS):
            if (self.folder / name).exists():
                link_file(self.folder / name, folder / name)

    def of_shard(self, number: int) -> Path:
        """The folder of a shard.

        Raises:
            ArtifactError: the list names something else than a folder beside it, such as a URL of earlier versions.
        """
        folder = self.folder / (location := self.listed[number].location)
        if location and (folder.parent != self.folder or folder.name != location):
            problem = f"{location!r} is no folder's name: encode the corpus again"
            raise ArtifactError(f"{self.folder / SHARDS}: {problem}")
        return folder


@dataclass(frozen=True, eq=False)
class Pieces:
    """A line of things that lies in several pieces; first: int64 [S + 1], where each begins, and how many there are."""

    first: NDArray[np.int64]

    def __len__(self) -> int:
        return int(self.first[-1])

    def spans(self, start: int, stop: int) -> Iterator[tuple[int, int, int]]:
        """From `start` to `stop`: the number of each piece, and the range in it."""
        number = int(np.searchsorted(self.first, start, "right")) - 1
        while start < stop:
            begin, end = int(self.first[number]), min(stop, int(self.first[number + 1]))
            if end > start:
                yield number, start - begin, end - begin
            start, number = end, number + 1

    def owned(self, positions: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        """For positions int64 [n]: each piece that has some, the indices of these, and their positions in the piece."""
        owner = np.searchsorted(self.first, positions, "right") - 1
        for number in np.unique(owner):
            mine = np.flatnonzero(owner == number)
            yield int(number), mine, positions[mine] - self.first[number]


def index_bytes(folder: Path, without: str = "") -> int:
    """What an index takes; the ids beside dense ones, which are the same for every kind, are left out.

    without: a folder in it that does not count.
    """
    aside = {DOC_IDS, MANIFEST, SHARDS, "shard.json"}
    files = (path for path in folder.rglob("*") if path.is_file() and path.name not in aside)
    return sum(path.stat().st_size for path in files if path.relative_to(folder).parts[0] != without)
