"""Which blocks of a folder are on disk, while several processes write them and any of them may be killed."""

import json
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self

from hardneg.formats.doc_ids import write_doc_ids
from hardneg.records.errors import ArtifactError
from hardneg.records.layout import DOC_IDS
from hardneg.store.atomic_write import replace_text, replacing

_SIZES = "sizes.json"


class Journal:
    """The finished blocks of a folder: a line of numbers each, the block's own first.

    Every writer has a file of its own, for machines that share a disk may not append to one. While a file is there, the
    folder is unfinished.
    """

    def __init__(self, folder: Path, name: str, writer: int = 0) -> None:
        """The journal `name` of a folder, as its `writer`-th writer holds it."""
        self._folder, self._name = folder, name
        self._path = folder / (f"{name}.{writer}" if writer else name)
        self.file = -1

    @property
    def begun(self) -> bool:
        """Whether any writer has begun the folder and none has closed it."""
        return bool(self._files())

    def start(self) -> None:
        """Opens this writer's own file, beginning it where there is none."""
        self.file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)

    def add(self, *numbers: int) -> None:
        """Records that a block is safely on disk."""
        record = " ".join(map(str, numbers))
        os.write(self.file, f"\n{record} {_checksum(record)}\n".encode())

    def records(self) -> Iterator[tuple[int, ...]]:
        """What was added, by this or any other writer of the folder."""
        for line in "\n".join(path.read_text() for path in self._files()).splitlines():
            record, _, checksum = line.rpartition(" ")
            if record and checksum == _checksum(record):  # a line cut short by a kill names no finished block
                yield tuple(map(int, record.split()))

    def finished(self) -> set[int]:
        """The numbers of the blocks that are safely on disk."""
        return {record[0] for record in self.records()}

    def remove(self) -> None:
        """Takes away all writers' files: the folder is complete."""
        for path in self._files():
            path.unlink()
        self.release()

    def release(self) -> None:
        """Closes this writer's own file; its records stay."""
        if self.file >= 0:
            os.close(self.file)
        self.file = -1

    def _files(self) -> list[Path]:
        return sorted(self._folder.glob(f"{self._name}*"))


class BlockWriter:
    """Writes the `count` rows of a folder in blocks, several processes at a time; `_journal` has the finished ones."""

    folder: Path
    count: int
    _journal: Journal

    @property
    def documents(self) -> int:
        """How many ids the folder has: one a row, unless a document has several."""
        return self.count

    def finished_blocks(self) -> set[int]:
        """Return the numbers of the blocks that are safely on disk, by this or any other writer of the folder."""
        return self._journal.finished()

    def write_doc_ids(self, doc_ids: Iterable[str]) -> None:
        """Write the id of each row, in row order, streaming."""
        write_doc_ids(self.folder, doc_ids, self.documents)

    def _check_doc_ids(self) -> None:
        if not (self.folder / DOC_IDS).exists():
            raise ArtifactError(f"{self.folder}: the document ids are missing: call write_doc_ids first")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._journal.release()


def _checksum(record: str) -> str:
    return f"{zlib.crc32(record.encode()):08x}"


def check_sizes(folder: Path, sizes: Sequence[int]) -> None:
    """Notes in `folder` how many blocks there are and how large, or compares it with what a stopped run noted.

    Raises:
        ArtifactError: the run had cut other blocks, so that its numbers mean others.
    """
    path, wanted = folder / _SIZES, [len(sizes), max(sizes, default=0)]
    if not path.exists():
        replace_text(path, json.dumps(wanted))
    elif (begun := json.loads(path.read_text(encoding="utf-8"))) != wanted:
        cuts = f"{begun[0]} blocks of {begun[1]} at most, and this hardneg cuts {wanted[0]} of {wanted[1]}"
        raise ArtifactError(f"{folder.parent}: begun with {cuts}: delete the folder, and run again")


def first_missing(spans: Iterable[tuple[int, int]]) -> int:
    """The first row that no span of (first row, number of rows) covers, from row 0 on."""
    done = 0
    for start, rows in sorted(spans):
        if start > done:
            break
        done = max(done, start + rows)
    return done


_JOURNAL, _FACTS = "blocks.journal", "facts.json"


@dataclass(frozen=True)
class BlockFiles:
    """The result of a block: the bytes of its files by name, and its counts."""

    files: Mapping[str, bytes]
    facts: Mapping[str, float]


class BlockFolder:
    """The blocks that are finished in a folder; several processes may each write some, as writers of other numbers."""

    def __init__(self, folder: Path, writer: int = 0) -> None:
        """The blocks in `folder`, as its `writer`-th writer holds them."""
        self._folder, self._journal = folder, Journal(folder, _JOURNAL, writer)

    def finished(self) -> set[int]:
        """The numbers of the blocks that are safely on disk, by this or any other writer."""
        return self._journal.finished()

    def write(self, number: int, part: BlockFiles) -> None:
        """Writes the files of a block, and marks it as finished."""
        facts = json.dumps(part.facts, sort_keys=True).encode()
        for name, data in {**part.files, _FACTS: facts}.items():
            with replacing(self._path(number, name)) as file:
                file.write(data)
        if self._journal.file < 0:
            self._journal.start()
        self._journal.add(number)

    def paths(self, name: str, count: int) -> list[Path]:
        """The files of this name of blocks 0 to `count`; those that a block has none of are left out.

        Raises:
            ArtifactError: a block is not finished.
        """
        if missing := set(range(count)) - self.finished():
            raise ArtifactError(f"{self._folder}: block {min(missing)} of {count} is missing: run the step again")
        return [path for number in range(count) if (path := self._path(number, name)).exists()]

    def facts(self, count: int) -> Counter[str]:
        """The counts of blocks 0 to `count`, summed. Raises as `paths`."""
        total = Counter[str]()
        for path in self.paths(_FACTS, count):
            total.update(json.loads(path.read_text(encoding="utf-8")))
        return total

    def release(self) -> None:
        """Closes this writer's journal; its records stay."""
        self._journal.release()

    def _path(self, number: int, name: str) -> Path:
        return self._folder / f"{number:09d}.{name}"


def contiguous(numbers: Sequence[int]) -> Iterator[range]:
    """Ascending numbers as ranges of those that follow each other."""
    begins = [i for i, number in enumerate(numbers) if not i or number != numbers[i - 1] + 1]
    for begin, end in pairwise([*begins, len(numbers)]):
        yield range(numbers[begin], numbers[end - 1] + 1)
