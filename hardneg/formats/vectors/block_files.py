"""The blocks of a run or of negatives, each in files of its own, until all are there and are put together."""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from hardneg.formats.vectors.journal import Journal
from hardneg.records.errors import ArtifactError
from hardneg.store.atomic_write import replacing

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
