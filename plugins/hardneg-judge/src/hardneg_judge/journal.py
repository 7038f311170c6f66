"""Answers that outlive a run: a file of lines, each of which says by its checksum whether it is whole."""

import hashlib
import json
import os
import zlib
from array import array
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import ArtifactError

_READ = 1 << 14
_RECENT = 1 << 16


class Answer(NamedTuple):
    """What a model has said, and the tokens that it read and wrote, as the server counts them; -1 where it did not."""

    text: str
    read: int = -1
    written: int = -1


def request_key(content: str) -> str:
    """What a request is known by: 128 bits of its content, in hexadecimal digits."""
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class AnswerJournal:
    """Answers by request; 16 bytes of memory each.

    Several threads and processes may use one file. What a process that is killed has kept is whole; a line that it was
    writing is passed over.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file, making it where there is none. Raises ArtifactError where it cannot be had."""
        self._lock, self._recent = Lock(), dict[int, int]()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        except OSError as error:
            raise ArtifactError(
                f"{path}: answers cannot be kept ({error.strerror}): make room, or free the path"
            ) from error
        self._hashes, self._offsets = _sorted(*_scanned(path))

    def __len__(self) -> int:
        return len(self._hashes) + len(self._recent)

    def find(self, key: str) -> Answer | None:
        """The answer to a request, if it is known."""
        with self._lock:
            offset = self._offset(_hash(key))
            line = None if offset is None else self._line(offset)
        record = None if line is None else _record(line)
        return Answer(*record[1:]) if record is not None and record[0] == key else None

    def keep(self, key: str, answer: Answer) -> None:
        """Adds an answer. Raises ArtifactError where the disk does not take it."""
        record = json.dumps([key, *answer], ensure_ascii=True)
        line = f"\n{record}\t{_checksum(record.encode())}".encode()
        with self._lock:
            try:
                os.write(self._file, line)
                end = os.lseek(self._file, 0, os.SEEK_CUR)
            except OSError as error:
                raise ArtifactError(f"answers cannot be kept ({error.strerror}): make room on the disk") from error
            self._recent[_hash(key)] = end - len(line) + 1
            if len(self._recent) >= _RECENT:
                self._merge()

    def close(self) -> None:
        """Ends the use of the file."""
        os.close(self._file)

    def _offset(self, wanted: int) -> int | None:
        if (offset := self._recent.get(wanted)) is not None:
            return offset
        row = int(np.searchsorted(self._hashes, np.uint64(wanted), side="right")) - 1  # of several, the latest
        return int(self._offsets[row]) if row >= 0 and int(self._hashes[row]) == wanted else None

    def _line(self, offset: int) -> bytes:
        parts: list[bytes] = []
        while part := os.pread(self._file, _READ, offset):
            head, end, _ = part.partition(b"\n")
            parts.append(head)
            if end:
                break
            offset += len(part)
        return b"".join(parts)

    def _merge(self) -> None:
        """Moves what was added lately into the arrays."""
        hashes = np.concatenate([self._hashes, np.fromiter(self._recent.keys(), np.uint64)])
        offsets = np.concatenate([self._offsets, np.fromiter(self._recent.values(), np.uint64)])
        (self._hashes, self._offsets), self._recent = _sorted(hashes, offsets), {}


def _hash(key: str) -> int:
    return int(key[:16], 16)


def _scanned(path: Path) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """The hash and the place of each whole line."""
    hashes, offsets = array("Q"), array("Q")
    for offset, line in _lines(path):
        if (record := _record(line)) is not None:
            hashes.append(_hash(record[0]))
            offsets.append(offset)
    return np.frombuffer(hashes, np.uint64), np.frombuffer(offsets, np.uint64)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    offset = 0
    with path.open("rb") as file:
        for line in file:
            yield offset, line.rstrip(b"\n")
            offset += len(line)


def _sorted(hashes: NDArray[np.uint64], offsets: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    order = np.argsort(hashes, stable=True)
    return hashes[order], offsets[order]


def _record(line: bytes) -> tuple[str, str, int, int] | None:
    """A line's key, answer and tokens; None where it is not whole."""
    record, _, checksum = line.rpartition(b"\t")
    if not record or checksum.decode("ascii", "replace") != _checksum(record):
        return None
    key, text, read, written = json.loads(record)
    return key, text, read, written


def _checksum(record: bytes) -> str:
    return f"{zlib.crc32(record):08x}"
