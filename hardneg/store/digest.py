"""Digests that name artifacts: equal content has equal names on every machine."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

_CHUNK = 1 << 22


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and no spaces; floats as Python prints them. Raises TypeError for other types."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def digest(value: Any) -> str:
    """32 hexadecimal digits that name a JSON value."""
    return hashlib.blake2b(canonical(value).encode(), digest_size=16).hexdigest()


def file_digest(path: Path) -> str:
    """32 hexadecimal digits that name a file's bytes."""
    state = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            state.update(chunk)
    return state.hexdigest()


def tree_digest(root: Path, names: Iterable[str] | None = None) -> str:
    """A name for the files below `root` (or for those of `names`, relative to it): their paths and their bytes."""
    paths = sorted(root.joinpath(name) for name in names) if names is not None else sorted(root.rglob("*"))
    return digest([[path.relative_to(root).as_posix(), file_digest(path)] for path in paths if path.is_file()])
