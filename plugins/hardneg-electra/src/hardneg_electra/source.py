"""Where an ELECTRA's files are, and what names their content."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from hardneg.plugin import ModelError

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_TEXTS = ("*.json", "*.txt")
_WEIGHTS = "*.safetensors"
_OLDER = "pytorch_model.bin"  # what ELECTRA was published as; read with weights_only, so that no code of it runs


def fetch(source: str, revision: str | None) -> Path:
    """A folder that holds the model's files, downloaded into the hub's cache if need be.

    Raises:
        ModelError: there is no such model, or it cannot be downloaded.
    """
    if (folder := Path(source).expanduser()).is_dir():
        return folder
    commit = _commit(source, revision)
    path = _download(source, commit, (*_TEXTS, _WEIGHTS))
    return path if any(path.glob(_WEIGHTS)) else _download(source, commit, (_OLDER,))


def at_hand(source: str, revision: str | None) -> Path | None:
    """The folder that holds the model's files, if they are on this machine; never asks the hub."""
    from huggingface_hub import try_to_load_from_cache

    if (folder := Path(source).expanduser()).is_dir():
        return folder
    cached = try_to_load_from_cache(source, "config.json", revision=revision) if _HUB_ID.fullmatch(source) else None
    return Path(cached).parent if isinstance(cached, str) else None


def content(source: str, revision: str | None) -> str:
    """A name for the model's content: a hub id's commit, or a digest of all that a folder's files hold.

    Raises:
        ModelError: there is no such model, or the hub has to be asked and cannot be reached.
    """
    if not (folder := Path(source).expanduser()).is_dir():
        return f"{source}@{_commit(source, revision)}"
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(_files(folder)):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "blake2b").digest())
    return digest.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for pattern in (*_TEXTS, _WEIGHTS, _OLDER):
        yield from (path for path in folder.rglob(pattern) if path.is_file())


def _commit(source: str, revision: str | None) -> str:
    from huggingface_hub import HfApi, try_to_load_from_cache

    if not _HUB_ID.fullmatch(source):
        raise ModelError(f"electra: {source!r}: no such folder: give a folder or a hub id")
    try:
        cached = try_to_load_from_cache(source, "config.json", revision=revision)
        if isinstance(cached, str):
            return Path(cached).parent.name
        commit = HfApi().model_info(source, revision=revision).sha
    except Exception as error:  # the hub's client lets errors of several libraries through
        raise ModelError(
            f"electra: {source!r} is neither a folder nor in the hub's cache, and the hub cannot be reached "
            f"({_first_line(error)}): check the name, or go online"
        ) from error
    if commit is None:
        raise ModelError(f"electra: the hub knows no commit of {source!r}, revision {revision or 'main'!r}")
    return commit


def _download(source: str, commit: str, patterns: Sequence[str]) -> Path:
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(source, revision=commit, allow_patterns=list(patterns)))
    except Exception as error:  # the hub's client lets errors of several libraries through
        raise ModelError(
            f"electra: {source!r} cannot be downloaded ({_first_line(error)}): "
            f"go online, or fetch it with `hf download {source}`"
        ) from error


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
