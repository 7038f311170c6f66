"""Files at URLs that fsspec opens: s3, gs, hf and others. What is half-written there is never seen under its name."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from hardneg.records.errors import ArtifactError, HardnegError, MissingDependency, UsageError

_SCHEMES = ("file", "memory", "s3", "gs", "gcs", "hf", "az", "abfs", "hdfs", "sftp", "https", "http")
_T = TypeVar("_T")
_EXTRA = 'pip install "hardneg[remote]" for s3, or the package of fsspec for another'


def is_url(path: str) -> bool:
    """Whether a location is a URL, not a path."""
    return "://" in path or path.startswith("file:")


def joined(url: str, *names: str) -> str:
    """The URL of what is below a URL."""
    return "/".join([url.rstrip("/"), *names])


def put_file(path: Path, url: str) -> None:
    """Puts a file at a URL, where it appears whole.

    Raises:
        ArtifactError: it cannot be written.
        MissingDependency: the package of the URL's kind is not installed.
    """
    with _opened(url) as (files, remote_path):
        if "file" in (files.protocol if isinstance(files.protocol, tuple) else (files.protocol,)):
            files.makedirs(files._parent(remote_path), exist_ok=True)
            files.put_file(str(path), f"{remote_path}.new")
            files.mv(f"{remote_path}.new", remote_path)
        else:
            files.put_file(str(path), remote_path)


def fetch_file(url: str, path: Path) -> None:
    """Copies what is at a URL to a file.

    Raises:
        ArtifactError: it is not there, or cannot be read.
        MissingDependency: the package of the URL's kind is not installed.
    """
    if not find_file(url, path):
        raise ArtifactError(f"{url}: is not there")


def find_file(url: str, path: Path) -> bool:
    """Copies what is at a URL to a file; False where nothing is there. Raises as `fetch_file`."""
    return _read(url, lambda files, remote: bool(files.get_file(remote, str(path)) or True)) or False


def file_size(url: str) -> int | None:
    """The bytes of the file at a URL; None where there is none. Raises as `fetch_file`."""
    return _read(url, lambda files, remote: int(files.size(remote)))


def read_json(url: str) -> Any:
    """The JSON at a URL; None where there is none, or it was not written to its end. Raises as `fetch_file`."""
    text = _read(url, lambda files, remote: files.cat_file(remote))
    try:
        return None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None


def _read(url: str, read: Callable[[Any, str], _T]) -> _T | None:
    """What `read` gives for the file system of a URL and the path in it, as it is now; None where no file is there."""
    with _opened(url) as (files, remote_path):
        files.invalidate_cache()
        try:
            return read(files, remote_path)
        except FileNotFoundError:
            return None


def check_url(url: str) -> None:
    """Refuses what is no URL of a kind that may be read and written.

    Raises:
        UsageError: it is none.
    """
    scheme = url.partition(":")[0]
    if not is_url(url) or scheme not in _SCHEMES or "::" in url:
        raise UsageError(f"{url}: no URL that can be used; begin it with one of {', '.join(_SCHEMES)}")


@contextmanager
def _opened(url: str) -> Iterator[tuple[Any, str]]:
    """The file system of a URL, and the path in it; its errors become ours, in one line."""
    check_url(url)
    import fsspec  # type: ignore[import-untyped]

    try:
        yield fsspec.core.url_to_fs(url)
    except HardnegError:
        raise
    except ImportError as error:
        raise MissingDependency(f"{url}: {error}: {_EXTRA}") from error
    except FileNotFoundError as error:
        raise ArtifactError(f"{url}: is not there") from error
    except Exception as error:  # each kind of storage has its own
        reason = str(error).split("\n")[0] or type(error).__name__
        raise ArtifactError(f"{url}: {reason}: look to the URL and to your rights there") from error
