"""Answers that outlive a run: a file of lines, each of which says by its checksum whether it is whole."""

import hashlib
import json
import os
import zlib
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from hardneg.plugin import errors


class Answer(NamedTuple):
    """What a model has said, and the tokens that it read and wrote, as the server counts them; -1 where it did not."""

    text: str
    read: int = -1
    written: int = -1


def request_key(content: str) -> str:
    """What a request is known by: 128 bits of its content, in hexadecimal digits."""
    return hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class AnswerJournal:
    """Answers by request; memory holds their places alone.

    Several threads and processes may use one file. What a process that is killed has kept is whole; a line that it was
    writing is passed over.
    """

    def __init__(self, path: Path) -> None:
        """Opens the file, making it where there is none. Raises ArtifactError where it cannot be had."""
        self._lock, self._offsets, offset = Lock(), dict[int, int](), 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
            self._reader = path.open("rb")
        except OSError as error:
            message = f"{path}: answers cannot be kept ({error.strerror}): make room, or free the path"
            raise errors.ArtifactError(message) from error
        for line in self._reader:
            if (record := _record(line)) is not None:
                self._offsets[_short(record[0])] = offset
            offset += len(line)

    def __len__(self) -> int:
        return len(self._offsets)

    def find(self, key: str) -> Answer | None:
        """The answer to a request, if it is known."""
        with self._lock:
            if (offset := self._offsets.get(_short(key))) is None:
                return None
            self._reader.seek(offset)
            record = _record(self._reader.readline())
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
                raise errors.ArtifactError(
                    f"answers cannot be kept ({error.strerror}): make room on the disk"
                ) from error
            self._offsets[_short(key)] = end - len(line) + 1

    def close(self) -> None:
        """Ends the use of the file."""
        os.close(self._file)
        self._reader.close()


def _short(key: str) -> int:
    return int(key[:16], 16)


def _record(line: bytes) -> tuple[str, str, int, int] | None:
    """A line's key, answer and tokens; None where it is not whole."""
    record, _, checksum = line.rstrip(b"\n").rpartition(b"\t")
    if not record or checksum.decode("ascii", "replace") != _checksum(record):
        return None
    key, text, read, written = json.loads(record)
    return key, text, read, written


def _checksum(record: bytes) -> str:
    return f"{zlib.crc32(record):08x}"
