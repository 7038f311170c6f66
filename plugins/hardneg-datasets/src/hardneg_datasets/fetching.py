"""Downloads of published datasets, verified by digest or number of lines."""

import json
import os
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from pydantic import TypeAdapter

from hardneg.plugin import errors, records, runtime

_BLOCK = 1 << 16
_SECONDS = 60.0
_RETRIES = 2
_TABLE = Path(__file__).with_name("downloads.json")


@dataclass(frozen=True)
class Download:
    """One file of a dataset, to download.

    url: the address. name: the file name in the dataset's folder. size: the size in bytes; about: the approximate size,
    if the size is unknown. md5: the published digest; lines: the number of lines, if no digest is published. members:
    names of files to extract, if the file is an archive.
    """

    url: str
    name: str
    size: int = 0
    about: int = 0
    md5: str = ""
    lines: int = 0
    members: tuple[str, ...] = ()

    @property
    def bytes(self) -> int:
        """The size in bytes, exact if known, else approximate."""
        return self.size or self.about


@dataclass(frozen=True)
class Published:
    """A published dataset: the name of the loader that reads it, the address of its terms of use, and its files."""

    loader: str
    terms: str
    files: tuple[Download, ...]


def published() -> Mapping[str, Published]:
    """Return the datasets that can be downloaded, by name."""
    rows = json.loads(_TABLE.read_text(encoding="utf-8"))
    return TypeAdapter(dict[str, Published]).validate_python(
        {name: row for name, row in rows.items() if isinstance(row, dict)}
    )


def find_published(name: str) -> Published:
    """Return the dataset with the given name. Raises UsageError for an unknown name, listing all names."""
    known = published()
    if name not in known:
        choices = f"available: {', '.join(known)}; read others from the hub, such as hf:mteb/scifact"
        raise errors.UsageError(f"unknown dataset {name!r}{records.suggestion(name, known)}; {choices}")
    return known[name]


def fetch(download: Download, folder: Path, progress: runtime.Progress) -> bool:
    """Download one file and extract its members, if any; return False if everything was already there.

    An archive is kept. Raises DataError if the download fails or a file is not as published; a wrong file is deleted.
    """
    import pooch

    registry = {download.name: f"md5:{download.md5}" if download.md5 else None}
    files = pooch.create(folder, "", registry=registry, urls={download.name: download.url}, retry_if_failed=_RETRIES)
    actions: list[str] = []

    def bring(url: str, target: str, _: object) -> None:
        partial = folder / f"{download.name}.partial"
        have = partial.stat().st_size if partial.exists() else 0
        with progress.task(download.name, download.bytes or None, "bytes", have) as task, partial.open("ab") as file:
            if not download.size or have < download.size:
                _append(url, _Counted(file, task), have)
        os.replace(partial, target)

    pooch.get_logger().setLevel("ERROR")

    def note(path: str, action: str, _: object) -> str:
        actions.append(action)
        return path

    try:
        path = files.fetch(download.name, note, bring)
    except (OSError, ValueError) as error:
        raise errors.DataError(
            f"{download.url}: {records.first_line(error)}; run the same command to resume"
        ) from error
    new = _unpack(download, Path(path)) if download.members else False
    with Path(path).open("rb") as file:
        count = sum(bool(line.strip()) for line in file) if download.lines else 0
    if count != download.lines:
        Path(path).unlink()
        raise errors.DataError(
            f"{download.url}: expected {download.lines:,} lines, found {count:,}; the file was discarded, so retry"
        )
    return new or actions != ["fetch"]


class _Counted:
    """A file that reports the progress of writing."""

    def __init__(self, file: IO[bytes], task: runtime.Task) -> None:
        self._file, self._task = file, task

    def write(self, block: bytes) -> None:
        self._file.write(block)
        self._task.advance(len(block))

    def flush(self) -> None:
        self._file.flush()


def _append(url: str, file: _Counted, have: int) -> None:
    """Append the missing bytes."""
    from pooch import HTTPDownloader

    headers = {"Accept-Encoding": "identity", **({"Range": f"bytes={have}-"} if have else {})}
    try:
        HTTPDownloader(chunk_size=_BLOCK, headers=headers, timeout=_SECONDS)(url, file, None)
    except OSError as error:
        if (
            getattr(getattr(error, "response", None), "status_code", 0) != 416
        ):  # range not satisfiable: the file is complete
            raise


def _unpack(download: Download, archive: Path) -> bool:
    """Extract the members into the archive's folder, each whole or not at all; return False if all were there."""
    new = False
    try:
        with tarfile.open(archive) as tar:
            members = {Path(member.name).name: member for member in tar if member.isfile()}
            if lacking := [name for name in download.members if name not in members]:
                raise errors.DataError(f"{archive}: does not contain {', '.join(lacking)}; delete it and retry")
            for name in download.members:
                path, partial = archive.with_name(name), archive.with_name(f"{name}.partial")
                if path.is_file() and path.stat().st_size == members[name].size:
                    continue
                with cast(IO[bytes], tar.extractfile(members[name])) as source, partial.open("wb") as target:
                    shutil.copyfileobj(source, target, _BLOCK)
                partial.rename(path)
                new = True
    except (tarfile.TarError, EOFError, zlib.error) as error:
        reason = records.first_line(error)
        raise errors.DataError(f"{archive}: cannot be extracted ({reason}); delete it and retry") from error
    return new
