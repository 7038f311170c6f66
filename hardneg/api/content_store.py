"""What a program hands over in memory, kept in the store under the digest of its bytes: equal content is kept once."""

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from hardneg.store.artifacts import Artifact, Store
from hardneg.store.digest import digest, tree_digest


def keep_content(store: Store, artifact_type: str, write: Callable[[Path], object]) -> Artifact:
    """What `write` writes into an empty folder, as an artifact under the digest of its bytes.

    Raises:
        ArtifactError: the store cannot be written.
    """
    name = uuid4().hex
    with store.lock(name):
        folder = store.workspace(name)
        try:
            write(folder)
            origin = {"stage": artifact_type, "content": tree_digest(folder), "name": artifact_type}

            def move(target: Path) -> None:
                for path in folder.iterdir():
                    os.replace(path, target / path.name)

            return keep_result(store, artifact_type, origin, move)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            (store.root / "locks" / name).unlink(missing_ok=True)


def keep_result(
    store: Store, artifact_type: str, origin: Mapping[str, Any], make: Callable[[Path], Mapping[str, Any] | None]
) -> Artifact:
    """The artifact of an origin, made in an empty folder unless the store has it; `make` may return its facts."""
    key = digest({name: value for name, value in origin.items() if name != "name"})
    with store.lock(key):
        store.recover(key)
        if artifact := store.whole(key):
            return artifact
        store.discard(key)
        facts = make(store.workspace(key))
        return store.commit(key, artifact_type, facts or {}, origin)
