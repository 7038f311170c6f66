"""Vectors that come in the order of their rows, written shard by shard; each is closed, and put where it is to be."""

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.formats.vectors.remote import joined
from hardneg.formats.vectors.shard_folder import Closed, close_folder, close_shard, put_shard
from hardneg.formats.vectors.shards import Pieces, even_cut, shard_name
from hardneg.records.errors import ArtifactError
from hardneg.runtime.progress import Progress


@dataclass(frozen=True)
class RowCut:
    """How rows are cut into shards: into how many, or of how many rows at most; url: where they are put, None: here."""

    shards: int | None = None
    rows: int | None = None
    url: str | None = None

    def first(self, total: int) -> NDArray[np.int64]:
        """int64 [S + 1], the first row of each shard, and how many rows there are."""
        return np.array(even_cut(total, total, self.shards, self.rows), np.int64)


@dataclass(frozen=True)
class ShardsToWrite:
    """Flat shards of an index in a folder; doc_ids: of all rows."""

    folder: Path
    dimension: int
    doc_ids: Sequence[str]
    cut: RowCut

    def write(self, blocks: Iterable[NDArray[np.float32]], progress: Progress) -> None:
        """Takes vectors float32 [n, dimension] block by block, of every row; then closes the folder.

        With a URL no more than a shard is on this disk.

        Raises:
            ArtifactError: a vector is not finite, a row is missing, or another shard stands at the URL.
        """
        pieces, closed = Pieces(self.cut.first(len(self.doc_ids))), list[Closed]()
        with progress.task("importing", len(pieces), "vectors") as task:
            for number, parts in groupby(_parts(blocks, pieces), itemgetter(0)):
                begin, end = map(int, pieces.first[number : number + 2])
                with FlatWriter(self.folder / shard_name(number), self.dimension, end - begin) as writer:
                    for _, row, part in parts:
                        writer.write_block(row, row, part)
                        task.advance(len(part))
                    writer.write_doc_ids(self.doc_ids[begin:end])
                    writer.close()
                    own = close_shard(writer.folder, end - begin, {"first": begin, "dimension": self.dimension})
                closed.append(own if self.cut.url is None else _put(own, joined(self.cut.url, writer.folder.name)))
        close_folder(self.folder, closed)


def _parts(blocks: Iterable[NDArray[np.float32]], pieces: Pieces) -> Iterator[tuple[int, int, NDArray[np.float32]]]:
    """The blocks cut where pieces begin: the number of each one's piece, and its first row there."""
    row = 0
    for block in blocks:
        start = row
        for number, begin, end in pieces.spans(start, start + len(block)):
            yield number, begin, block[row - start : row - start + end - begin]
            row += end - begin


def _put(closed: Closed, url: str) -> Closed:
    """The shard at its URL, where an equal one may stand already."""
    if (there := Closed.find(url)) is None:
        put_shard(Path(closed.location), url)
        there = Closed(url, closed.said)
    elif there.said["files"] != closed.said["files"]:
        raise ArtifactError(f"{url}: is a shard of something else: name another URL, or remove it")
    shutil.rmtree(closed.location)
    return there
