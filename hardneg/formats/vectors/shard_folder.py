"""The folder of an index in shards: the `shard.json` of each, and the files that are joined from the shards'."""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS, FlatWriter
from hardneg.formats.vectors.number_file import NumberFile, writing_numbers
from hardneg.formats.vectors.shards import SHARD, Pieces, Shard, Shards, shard_name
from hardneg.records.errors import ArtifactError
from hardneg.records.layout import DOC_IDS, TERMS, WEIGHTS
from hardneg.runtime.progress import Progress
from hardneg.store.artifacts import write_json
from hardneg.store.atomic_write import replace_text, replacing
from hardneg.store.digest import digest, file_digest

_INT = "<i8"


@dataclass(frozen=True)
class Closed:
    """A complete shard, and the content of its `shard.json`."""

    folder: Path
    said: dict[str, Any]

    @classmethod
    def find(cls, folder: Path) -> "Closed | None":
        """The shard in a folder; None where it is not complete."""
        path = folder / SHARD
        return cls(folder, json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None

    @property
    def rows(self) -> int:
        """How many documents or segments it holds."""
        return int(self.said["rows"])

    def has(self, name: str) -> bool:
        """Whether it has such a file."""
        return name in self.said["files"]

    @property
    def listed(self) -> Shard:
        """Its entry in a list."""
        files = self.said["files"]
        return Shard(self.folder.name, self.rows, sum(file["bytes"] for file in files.values()), digest(files))


def close_shard(folder: Path, rows: int, facts: dict[str, Any]) -> Closed:
    """Writes `shard.json`: the files of a finished index folder, and `facts` about it. Call it last."""
    paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SHARD)
    files = {path.name: {"bytes": path.stat().st_size, "digest": file_digest(path)} for path in paths}
    said = {"version": 1, "rows": rows, **facts, "files": files}
    write_json(folder / SHARD, said)
    return Closed(folder, said)


def close_folder(folder: Path, shards: Sequence[Closed]) -> None:
    """Writes beside the shards, which lie in `folder`, what an index has besides its large files, and the list last.

    Raises:
        ArtifactError: the shards are of different kinds or dimensions.
    """
    folder.mkdir(parents=True, exist_ok=True)
    shape = {name: {int(shard.said.get(name, 0)) for shard in shards} for name in ("dimension", "terms")}
    for name, values in shape.items():
        if len(values) > 1:
            raise ArtifactError(f"{shards[0].folder}: shards of {name} {sorted(values)}: encode them with one model")
    dimension, width = (values.pop() for values in shape.values())
    _join_ids(folder / DOC_IDS, shards)
    if all(shard.has(TOKEN_OFFSETS) for shard in shards):
        _join_offsets(folder / TOKEN_OFFSETS, shards)
    if width:
        replace_text(folder / WEIGHTS, json.dumps({"rows": sum(shard.rows for shard in shards), "terms": width}))
    if shards[0].has(TERMS):
        replace_text(folder / TERMS, (shards[0].folder / TERMS).read_text(encoding="utf-8"))
    Shards(folder, [shard.listed for shard in shards], 0 if width else dimension).write()


def _join_ids(path: Path, shards: Sequence[Closed]) -> None:
    with replacing(path) as file:
        for shard in shards:
            with (shard.folder / DOC_IDS).open("rb") as ids:
                shutil.copyfileobj(ids, file)
                if ids.tell():
                    ids.seek(-1, os.SEEK_END)
                    file.write(b"" if ids.read(1) == b"\n" else b"\n")


def _join_offsets(path: Path, shards: Sequence[Closed]) -> None:
    end = np.zeros(1, np.int64)
    with writing_numbers(path, _INT, 1 + sum(shard.rows for shard in shards)) as write:
        write(end)
        for shard in shards:
            ends: NDArray[np.int64] = end + NumberFile(shard.folder / TOKEN_OFFSETS, _INT).mapped[1:]
            write(ends)
            end = ends[-1:] if len(ends) else end


def write_flat_shards(
    folder: Path,
    dimension: int,
    doc_ids: Sequence[str],
    cut: Sequence[int],
    blocks: Iterable[NDArray[np.float32]],
    progress: Progress,
) -> None:
    """Writes vectors as the flat shards of an index, and closes its folder.

    Args:
        folder: of the index.
        dimension: of the vectors.
        doc_ids: of all rows.
        cut: the first row of each shard, and how many rows there are.
        blocks: float32 [n, dimension], every row in order.
        progress: counts the vectors.

    Raises:
        ArtifactError: a vector is not finite, or a row is missing.
    """
    closed = list[Closed]()
    with progress.task("importing", cut[-1], "vectors") as task:
        for number, parts in groupby(_parts(blocks, Pieces(np.array(cut, np.int64))), itemgetter(0)):
            begin, end = cut[number : number + 2]
            with FlatWriter(folder / shard_name(number), dimension, end - begin) as writer:
                for _, part in parts:
                    writer.write(part)
                    task.advance(len(part))
                writer.write_doc_ids(doc_ids[begin:end])
                writer.close()
            closed.append(close_shard(writer.folder, end - begin, {"first": begin, "dimension": dimension}))
    close_folder(folder, closed)


def _parts(blocks: Iterable[NDArray[np.float32]], pieces: Pieces) -> Iterator[tuple[int, NDArray[np.float32]]]:
    """The blocks cut where pieces begin, each with the number of its piece."""
    row = 0
    for block in blocks:
        start = row
        for number, begin, end in pieces.spans(start, start + len(block)):
            yield number, block[row - start : row - start + end - begin]
            row += end - begin
