"""The files of one push by their path in the repository, each a file of this machine or bytes."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hardneg.records.layout import LOCK

CARD = "README.md"
_CHUNK = 1 << 22


@dataclass(frozen=True)
class HubFile:
    """One file. path: in the repository. source: the file here, or the bytes."""

    path: str
    source: Path | bytes

    @cached_property
    def size(self) -> int:
        """How many bytes it has."""
        return len(self.source) if isinstance(self.source, bytes) else self.source.stat().st_size

    @cached_property
    def sha256(self) -> str:
        """The name of its bytes among large files."""
        state = hashlib.sha256()
        for chunk in self._chunks():
            state.update(chunk)
        return state.hexdigest()

    @cached_property
    def blob(self) -> str:
        """The name of its bytes in git: SHA-1 of `blob SIZE`, a zero byte, and the bytes."""
        state = hashlib.sha1(b"blob %d\0" % self.size)
        for chunk in self._chunks():
            state.update(chunk)
        return state.hexdigest()

    def read(self) -> bytes:
        """Its bytes."""
        return b"".join(self._chunks())

    def _chunks(self) -> Iterator[bytes]:
        if isinstance(self.source, bytes):
            yield self.source
            return
        with self.source.open("rb") as file:
            while chunk := file.read(_CHUNK):
                yield chunk


@dataclass(frozen=True)
class Upload:
    """All files. upload_type: `model`, `reranker`, `index`, `negatives` or `runs`. notes: files that stay here.

    files: the card first.
    """

    upload_type: str
    files: tuple[HubFile, ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, upload_type: str, card: str, files: Iterable[HubFile], notes: Iterable[str] = (), lock: str = ""
    ) -> "Upload":
        """The files by their paths, with the card, and the lock file of a recipe where there is one."""
        own = [HubFile(CARD, card.encode()), *([HubFile(LOCK, lock.encode())] if lock else [])]
        files = sorted([*own, *files], key=lambda file: (file.path != CARD, file.path))
        return cls(upload_type, tuple(files), tuple(notes))

    @property
    def repo_type(self) -> str:
        """The hub's word for the kind of repository."""
        return "model" if self.upload_type in ("model", "reranker") else "dataset"

    @property
    def card(self) -> str:
        """The text of its card."""
        return next(file for file in self.files if file.path == CARD).read().decode()

    @property
    def size(self) -> int:
        """How many bytes it has."""
        return sum(file.size for file in self.files)
