"""The published files of known datasets: where each is and by what digest it is known, and how it is fetched."""

import hashlib
import json
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO, Any, cast

from hardneg.records.errors import DataError, UsageError
from hardneg.records.wording import suggestion
from hardneg.runtime.progress import Progress

_BLOCK = 1 << 20
_SECONDS = 60.0
_SHOWN = 200  # characters
_PARTIAL = ".partial"
_DONE = ".fetched"
_TABLE = Path(__file__).with_name("downloads.json")


@dataclass(frozen=True)
class Download:
    """One file.

    url: where it is. name: its name in the dataset's folder. size: its bytes; about: roughly, where no more is known.
    md5: its published digest; lines: how many it has, where no digest is published. members: what of an archive is
    unpacked.
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
        """How large it is, exactly or roughly."""
        return self.size or self.about


@dataclass(frozen=True)
class Published:
    """A dataset: the loader that reads its folder, where its terms are, and its files."""

    loader: str
    terms: str
    files: tuple[Download, ...]


def published() -> Mapping[str, Published]:
    """All known datasets, by name."""
    rows: dict[str, Any] = json.loads(_TABLE.read_text(encoding="utf-8"))
    known = {}
    for name, row in rows.items():
        if isinstance(row, dict):
            files = [Download(**{**file, "members": tuple(file.get("members", ()))}) for file in row["files"]]
            known[name] = Published(row["loader"], row["terms"], tuple(files))
    return known


def find_published(name: str) -> Published:
    """The dataset of a name.

    Raises:
        UsageError: there is none, with what there is.
    """
    known = published()
    if name not in known:
        choices = f"there are: {', '.join(known)}; others are read from the hub, such as hf:mteb/scifact"
        raise UsageError(f"no dataset {name!r} can be fetched{suggestion(name, known)}; {choices}")
    return known[name]


def fetch(download: Download, folder: Path, progress: Progress) -> bool:
    """Brings one file, and unpacks it if it is an archive; False where it was there already.

    Raises:
        DataError: it cannot be reached, stops, or is another file than the published one; then it is not taken.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if _is_there(download, folder):
        return False
    path = folder / download.name
    if not path.is_file() or _fault(download, path):
        _download(download, path.with_name(f"{path.name}{_PARTIAL}"), progress)
    if download.members:
        _unpack(download, path)
    return True


def _is_there(download: Download, folder: Path) -> bool:
    if not download.members:
        return (folder / download.name).is_file() and not _fault(download, folder / download.name)
    note = folder / f".{download.name}{_DONE}"
    lines = note.read_text(encoding="utf-8", errors="replace").splitlines() if note.is_file() else []
    noted = {name: value for name, _, value in (line.partition("\t") for line in lines)}
    sizes = {name: (folder / name).stat().st_size for name in download.members if (folder / name).is_file()}
    return bool(noted) and noted == {"md5": download.md5, **{name: str(size) for name, size in sizes.items()}}


def _download(download: Download, partial: Path, progress: Progress) -> None:
    """The bytes that are not there yet, and the whole file in its place."""
    have = partial.stat().st_size if partial.exists() else 0
    if not download.size or have < download.size:
        try:
            _append(download, partial, have, progress)
        except (OSError, HTTPException, ValueError) as error:
            raise DataError(f"{download.url}: {_reason(error)}; the same command goes on from there") from error
    if fault := _fault(download, partial):
        partial.unlink()
        raise DataError(f"{download.url}: {fault}: it is not taken; fetch it again, or get {download.name} elsewhere")
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.rename(partial.with_name(download.name))


class _OfTheWeb(urllib.request.HTTPRedirectHandler):
    """Follows the server to other addresses of the web alone."""

    def redirect_request(self, req: Any, fp: Any, code: int, msg: str, headers: Any, newurl: str) -> Any:
        """As its base does. Raises ValueError for another kind of address."""
        _check_web(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _check_web(url: str) -> None:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"{url}: no address of the web")


def _append(download: Download, partial: Path, have: int, progress: Progress) -> None:
    _check_web(download.url)
    request = urllib.request.Request(download.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.build_opener(_OfTheWeb).open(request, timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if have and error.code == 416:  # there is nothing behind what is there
            return
        raise
    goes_on = answer.status == 206 and str(answer.headers.get("Content-Range")).startswith(f"bytes {have}-")
    if answer.status == 206 and not goes_on:
        answer.close()
        raise ValueError(f"asked for the bytes after {have:,}, the server sent others")
    with answer, partial.open("ab" if goes_on else "wb") as file:
        length = int(answer.headers.get("Content-Length") or 0)
        total = file.tell() + length if length else download.bytes or None
        least = total if length else download.size
        with progress.task(download.name, total, "bytes", file.tell()) as task:
            _copy(answer, file, task.advance, download.size or total or 0)
        if file.tell() < (least or 0):
            raise OSError(f"stopped after {file.tell():,} of {least:,} bytes")


def _copy(source: IO[bytes], target: IO[bytes], advance: Callable[[int], None], wanted: int) -> None:
    """All that comes; where so many bytes are wanted, not much more, for an answer may be without end."""
    while block := source.read(_BLOCK):
        target.write(block)
        advance(len(block))
        if wanted and target.tell() > 2 * wanted:
            return


def _fault(download: Download, path: Path) -> str:
    """Why a file is not the published one; empty where it is."""
    size = path.stat().st_size
    if download.size and size != download.size:
        return f"has {size:,} bytes, not the {download.size:,} of the published file"
    with path.open("rb") as file:
        md5 = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest() if download.md5 else ""
        if md5 != download.md5:
            return f"has the MD5 digest {md5}, not the published {download.md5}"
        file.seek(0)
        count = sum(bool(line.strip()) for line in file) if download.lines else 0
    return f"has {count:,} lines, not the published {download.lines:,}" if count != (download.lines or 0) else ""


def _unpack(download: Download, archive: Path) -> None:
    """The named members, each whole or not at all, into the archive's own folder; then the archive goes."""
    note = [f"md5\t{download.md5}"]
    try:
        with tarfile.open(archive) as tar:
            members = {Path(member.name).name: member for member in tar if member.isfile()}
            if lacking := [name for name in download.members if name not in members]:
                raise DataError(f"{archive}: the archive lacks {', '.join(lacking)}")
            for name in download.members:
                partial = archive.with_name(f"{name}{_PARTIAL}")
                with cast(IO[bytes], tar.extractfile(members[name])) as source, partial.open("wb") as target:
                    shutil.copyfileobj(source, target, _BLOCK)
                partial.rename(archive.with_name(name))
                note.append(f"{name}\t{archive.with_name(name).stat().st_size}")
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise DataError(f"{archive}: cannot be unpacked: {_reason(error)}") from error
    archive.with_name(f".{archive.name}{_DONE}").write_text("\n".join(note) + "\n", encoding="utf-8")
    archive.unlink()


def _reason(error: Exception) -> str:
    """In one line of printable characters: a server may say anything."""
    reason = str(getattr(error, "reason", "") or error or type(error).__name__)
    if isinstance(error, urllib.error.HTTPError):
        reason = f"the server answers {error.code} {error.reason}"
    line = next(iter(reason.splitlines()), "")
    return "".join(character for character in line if character.isprintable())[:_SHOWN]
