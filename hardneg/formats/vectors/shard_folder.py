"""The folder of an index in shards: the `shard.json` of each, and the files that are joined from the shards'."""

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS
from hardneg.formats.vectors.number_file import NumberFile, writing_numbers
from hardneg.formats.vectors.remote import fetch_file, file_size, is_url, joined, put_file, read_json
from hardneg.formats.vectors.shards import SHARD, Shard, Shards
from hardneg.formats.vectors.sparse_store import SHAPE
from hardneg.records.errors import ArtifactError
from hardneg.records.layout import DOC_IDS, TERMS
from hardneg.store.artifacts import write_json
from hardneg.store.atomic_write import replace_text, replacing
from hardneg.store.digest import digest, file_digest

_INT = "<i8"


@dataclass(frozen=True)
class Closed:
    """A complete shard, here or at a URL, and the content of its `shard.json`."""

    location: str
    said: dict[str, Any]

    @classmethod
    def find(cls, location: str) -> "Closed | None":
        """The shard at a URL, or in a folder; None where it is not complete."""
        if is_url(location):
            said = read_json(joined(location, SHARD))
        else:
            path = Path(location) / SHARD
            said = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        files = said.get("files") if isinstance(said, dict) and isinstance(said.get("rows"), int) else None
        described = files.values() if isinstance(files, dict) else ()
        whole = bool(described) and all(
            isinstance(file, dict) and {"bytes", "digest"} <= file.keys() for file in described
        )
        return cls(location, said) if whole else None

    @classmethod
    def listed_as(cls, shard: Shard) -> "Closed":
        """The shard that a list names.

        Raises:
            ArtifactError: it is not there, not complete, or another one than was listed.
        """
        closed = cls.find(shard.location)
        if closed is None:
            raise ArtifactError(f"{shard.location}: the shard is not there, or not complete: encode the corpus again")
        if closed.listed(shard.location) != shard:
            raise ArtifactError(f"{shard.location}: the shard is another one than was listed: encode the corpus again")
        return closed

    def check_sizes(self) -> None:
        """Compares the sizes of a remote shard's files with those in its `shard.json`, without reading them.

        Raises:
            ArtifactError: one is not there, or was cut short.
        """
        for name, file in self.said["files"].items() if is_url(self.location) else ():
            url = joined(self.location, name)
            if (size := file_size(url)) != file["bytes"]:
                reason = "is not there" if size is None else f"{size} bytes instead of {file['bytes']}"
                raise ArtifactError(f"{url}: {reason}: remove the shard there, and encode the corpus again")

    @property
    def rows(self) -> int:
        """How many documents or segments it holds."""
        return int(self.said["rows"])

    def has(self, name: str) -> bool:
        """Whether it has such a file."""
        return name in self.said["files"]

    def listed(self, location: str) -> Shard:
        """Its entry in a list, with this location."""
        files = self.said["files"]
        return Shard(location, self.rows, sum(file["bytes"] for file in files.values()), digest(files))

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        """One of its files, on this machine inside the block."""
        if not is_url(self.location):
            yield Path(self.location) / name
            return
        with TemporaryDirectory() as aside:
            fetch_file(joined(self.location, name), Path(aside) / name)
            if file_digest(Path(aside) / name) != self.said["files"][name]["digest"]:
                raise ArtifactError(f"{joined(self.location, name)}: the bytes have changed: encode the corpus again")
            yield Path(aside) / name


def close_shard(folder: Path, rows: int, facts: dict[str, Any]) -> Closed:
    """Writes `shard.json`: the files of a finished index folder, and `facts` about it. Call it last."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SHARD)
    files = {path.name: {"bytes": path.stat().st_size, "digest": file_digest(path)} for path in paths}
    said = {"version": 1, "rows": rows, **facts, "files": files}
    write_json(folder / SHARD, said)
    return Closed(str(folder), said)


def put_shard(folder: Path, url: str) -> None:
    """Puts a closed shard at a URL: its `shard.json` last, without which nobody takes it for one.

    Raises:
        ArtifactError: it cannot be written there.
    """
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.name != SHARD:
            put_file(path, joined(url, path.name))
    put_file(folder / SHARD, joined(url, SHARD))


def close_folder(folder: Path, shards: Sequence[Closed]) -> None:
    """Writes beside the shards what an index has besides its large files, and the list last.

    A shard in a folder of its own must lie in `folder`.

    Raises:
        ArtifactError: the shards are of different kinds or dimensions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shape = {name: {int(shard.said.get(name, 0)) for shard in shards} for name in ("dimension", "terms")}
    for name, values in shape.items():
        if len(values) > 1:
            raise ArtifactError(f"{shards[0].location}: shards of {name} {sorted(values)}: encode them with one model")
    dimension, width = (values.pop() for values in shape.values())
    _join_ids(folder / DOC_IDS, shards)
    if all(shard.has(TOKEN_OFFSETS) for shard in shards):
        _join_offsets(folder / TOKEN_OFFSETS, shards)
    if width:
        replace_text(folder / SHAPE, json.dumps({"rows": sum(shard.rows for shard in shards), "terms": width}))
    if shards[0].has(TERMS):
        with shards[0].file(TERMS) as path:
            replace_text(folder / TERMS, path.read_text(encoding="utf-8"))
    locations = (shard.location if is_url(shard.location) else Path(shard.location).name for shard in shards)
    listed = [shard.listed(location) for shard, location in zip(shards, locations, strict=True)]
    Shards(folder, listed, 0 if width else dimension).write()


def _join_ids(path: Path, shards: Sequence[Closed]) -> None:
    with replacing(path) as file:
        for shard in shards:
            with shard.file(DOC_IDS) as own, own.open("rb") as ids:
                shutil.copyfileobj(ids, file)
                if own.stat().st_size:
                    ids.seek(-1, os.SEEK_END)
                    file.write(b"" if ids.read(1) == b"\n" else b"\n")


def _join_offsets(path: Path, shards: Sequence[Closed]) -> None:
    end = np.zeros(1, np.int64)
    with writing_numbers(path, _INT, 1 + sum(shard.rows for shard in shards)) as write:
        write(end)
        for shard in shards:
            with shard.file(TOKEN_OFFSETS) as own:
                ends: NDArray[np.int64] = end + NumberFile(own, _INT).mapped[1:]
                write(ends)
                end = ends[-1:] if len(ends) else end


def far_shards(folder: Path) -> Sequence[Shard]:
    """The shards of a folder that are at URLs; none where it has no list, or one that cannot be read."""
    try:
        shards = Shards.of(folder)
    except ArtifactError:
        return ()
    return [shard for shard in shards.listed if is_url(shard.location)] if shards else ()


def shard_problem(shard: Shard) -> str:
    """What is wrong with a shard at a URL, every byte of which is read there; empty where nothing is.

    One of its files at a time is on this disk.
    """
    try:
        closed = Closed.listed_as(shard)
        for name in closed.said["files"]:
            with closed.file(name):
                pass
    except ArtifactError as error:
        return str(error)
    return ""
