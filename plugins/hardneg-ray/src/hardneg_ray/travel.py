"""Inputs of a stage on a machine that does not see the store of the driver: they are copied to a store of its own."""

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray

from hardneg.plugin import MANIFEST, ArtifactError, ArtifactInput, Store, file_digest, usual_store

_CHUNK = 16 << 20
Ask = Callable[..., Any]


@dataclass(frozen=True)
class Traveller:
    """Fetches from the driver's machine what this one lacks.

    store: where artifacts are kept. manifests: the digest of each input's manifest, by the input's path in its stage;
    None for what is no artifact.
    """

    desk: Any
    store: Store
    manifests: Mapping[str, str | None]

    @classmethod
    def of(cls, desk: Any, store: str | None, manifests: Mapping[str, str | None]) -> "Traveller":
        """With this machine's own store where none is named."""
        return cls(desk, usual_store(store), manifests)

    def inputs(self, inputs: Mapping[str, ArtifactInput]) -> dict[str, ArtifactInput]:
        """The same inputs, where they lie on this machine."""
        return {name: self._here(item, self.manifests.get(name)) for name, item in inputs.items()}

    def _here(self, item: ArtifactInput, manifest: str | None) -> ArtifactInput:
        if item.path is None or _manifest(item.path) == manifest is not None:
            return item
        if manifest is None:
            return replace(item, path=self.copied(item.path, Path(tempfile.mkdtemp(prefix="hardneg-"))))
        with self.store.lock(item.key):
            self.store.recover(item.key)
            if _manifest(self.store.path(item.key)) != manifest:
                self.store.discard(item.key)
                self._fetch(item.path, item.key)
        return replace(item, path=self.store.path(item.key))

    def _fetch(self, source: Path, key: str) -> None:
        """The manifest comes last, and every file is compared with the digest that it tells."""
        folder = self.store.workspace(key)
        self.copied(source, folder, last=MANIFEST)
        self.store.recover(key)
        artifact = self.store.find(key)
        noted = {name: expected for name, expected in artifact.files.items() if expected} if artifact else {}
        wrong = [name for name, expected in noted.items() if expected != file_digest(self.store.path(key) / name)]
        if wrong:
            self.store.discard(key)
            raise ArtifactError(f"{self.store.path(key)}: {', '.join(wrong)}: the bytes have changed on the way")

    def copied(self, source: Path, target: Path, last: str = "") -> Path:
        """A folder of the driver's machine, copied into `target`; the file called `last` comes last."""
        files = ray.get(self.desk.files.remote(source))
        for name, size in sorted(files, key=lambda file: file[0] == last):
            self.copy_file(source / name, size, target / name)
        return target

    def copy_file(self, source: Path, size: int, target: Path) -> None:
        """A file of the driver's machine of so many bytes."""
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as file:
            for start in range(0, size, _CHUNK):
                file.write(ray.get(self.desk.read.remote(source, start, min(_CHUNK, size - start))))


def _manifest(folder: Path) -> str | None:
    try:
        return file_digest(folder / MANIFEST)
    except OSError:
        return None


def manifests(inputs: Mapping[str, ArtifactInput]) -> dict[str, str | None]:
    """The digest of the manifest of each input that is a folder; None of a folder without one."""
    return {name: _manifest(item.path) for name, item in inputs.items() if item.path is not None}
