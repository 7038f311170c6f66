"""What actors ask the driver's machine for: choices that all must share, and files that their machine lacks."""

import json
from collections.abc import Sequence
from pathlib import Path

from hardneg.plugin import CHOICES, SCRATCH, atomic_write


def choices_file(folder: Path) -> Path:
    """Where the choices of the stage in a folder are kept until it is finished."""
    return folder / SCRATCH / CHOICES


def choices_in(path: Path) -> dict[str, str]:
    """The choices that a file tells, by subject; none where there is no file."""
    chosen: dict[str, str] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return chosen


class Desk:
    """An actor on the driver's machine.

    Choices are kept in a file, for a run that goes on.
    """

    def __init__(self, choices: Path, folders: Sequence[Path]) -> None:
        """With the choices in a file, if it is there; only files below `folders` are given."""
        self._file, self._folders = choices, [folder.resolve() for folder in folders]
        self._choices = choices_in(choices)

    def chosen(self, subject: str) -> str | None:
        """What was chosen, if anything was."""
        return self._choices.get(subject)

    def settle(self, subject: str, proposal: str) -> str:
        """What holds for all: the first proposal."""
        if subject not in self._choices:
            self._choices[subject] = proposal
            atomic_write.replace_text(self._file, json.dumps(self._choices, indent=1, sort_keys=True))
        return self._choices[subject]

    def files(self, folder: Path) -> list[tuple[str, int]]:
        """The place in a folder, and the bytes, of each of its files."""
        inside = self._checked(folder)
        files = [path for path in sorted(inside.rglob("*")) if path.is_file()]
        return [(path.relative_to(inside).as_posix(), path.stat().st_size) for path in files]

    def size(self, path: Path) -> int | None:
        """The bytes of a file; None where there is none."""
        checked = self._checked(path)
        return checked.stat().st_size if checked.is_file() else None

    def read(self, path: Path, start: int, size: int) -> bytes:
        """So many bytes of a file."""
        with self._checked(path).open("rb") as file:
            file.seek(start)
            return file.read(size)

    def _checked(self, path: Path) -> Path:
        resolved = path.resolve()
        if not any(resolved.is_relative_to(folder) for folder in self._folders):
            raise PermissionError(f"{path} is none of the stage's inputs")
        return resolved
