"""Storage for the finished blocks of a stage, one file per block. A file gets its name only when it is complete."""

import json
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.records import ArtifactError
from hardneg.store.content import replace_text, replacing

_SIZES, _FACTS, _BLOCK = "sizes.json", "facts", ".npz"


@dataclass(frozen=True)
class BlockResult:
    """The result of a block: arrays or bytes by name, and counts by name."""

    parts: Mapping[str, NDArray[Any] | bytes]
    facts: Mapping[str, float] = field(default_factory=dict)


class BlockStore:
    """The finished blocks in a folder. Several processes and machines may write; equal blocks have equal bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, sizes: Sequence[int]) -> None:
        """Record the number of blocks and the maximum of their `sizes`, or compare both with a stopped run's record.

        Raises ArtifactError if the stopped run had a different number or maximum size of blocks.
        """
        path, wanted = self.folder / _SIZES, [len(sizes), max(sizes, default=0)]
        if not path.exists():
            replace_text(path, json.dumps(wanted))
        elif (found := json.loads(path.read_text(encoding="utf-8"))) != wanted:
            cuts = f"{found[0]} blocks of at most {found[1]}, but this hardneg has {wanted[0]} of {wanted[1]}"
            raise ArtifactError(f"{self.folder}: started with {cuts}; delete the folder and run again")

    def finished(self) -> set[int]:
        """Return the numbers of the finished blocks."""
        return {int(path.stem) for path in self.folder.glob(f"*{_BLOCK}") if path.stem.isdecimal()}

    def write(self, number: int, block: BlockResult) -> None:
        """Write a block; when this returns, it is safely on disk.

        Raises ArtifactError if the folder is gone because another process has merged the blocks.
        """
        if not self.folder.is_dir():
            raise ArtifactError(f"{self.folder}: no longer exists; another process has finished or removed it")
        parts = {**block.parts, _FACTS: json.dumps(block.facts, sort_keys=True).encode()}
        arrays = {n: np.frombuffer(part, np.uint8) if isinstance(part, bytes) else part for n, part in parts.items()}
        with replacing(self.folder / f"{number:09d}{_BLOCK}") as file:
            np.savez(file, allow_pickle=False, **arrays)

    def read(self, number: int, *names: str) -> dict[str, NDArray[Any]]:
        """Return the parts of a finished block with the given names, or all parts; bytes are returned as uint8 arrays.

        Raises:
            ArtifactError: the block is missing or damaged; a damaged block is removed.
        """
        path = self.folder / f"{number:09d}{_BLOCK}"
        try:
            with np.load(path, allow_pickle=False) as file:
                wanted = names or [name for name in file.files if name != _FACTS]
                return {name: file[name] for name in wanted if name in file}
        except FileNotFoundError:
            raise ArtifactError(f"{self.folder}: block {number} is missing; run the step again") from None
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            path.unlink(missing_ok=True)
            raise ArtifactError(f"{path}: damaged ({error}) and removed; run the step again") from None

    def texts(self, name: str, count: int) -> Iterator[bytes]:
        """Yield part `name` of each of the first `count` blocks that has it, as bytes. Raises the errors of `read`."""
        for number in range(count):
            for part in self.read(number, name).values():
                yield part.tobytes()

    def facts(self, count: int) -> Counter[str]:
        """Return the counts of the first `count` blocks, summed by name. Raises the same errors as `read`."""
        total = Counter[str]()
        for number in range(count):
            total.update(json.loads(self.read(number, _FACTS)[_FACTS].tobytes()))
        return total


def write_behind(blocks: Iterable[tuple[int, BlockResult]], write: Callable[[int, BlockResult], None]) -> None:
    """Write blocks as they arrive, in a thread that writes one block while the next is computed."""
    with ThreadPoolExecutor(1) as disk:
        under_way: Future[None] | None = None
        for number, block in blocks:
            if under_way is not None:
                under_way.result()
            under_way = disk.submit(write, number, block)
        if under_way is not None:
            under_way.result()


def contiguous(numbers: Sequence[int]) -> Iterator[range]:
    """Group ascending numbers into ranges of consecutive numbers."""
    begins = [i for i, number in enumerate(numbers) if not i or number != numbers[i - 1] + 1]
    for begin, end in pairwise([*begins, len(numbers)]):
        yield range(numbers[begin], numbers[end - 1] + 1)
