"""Pack a run folder and its artifacts into one tar file, for another machine or an archive, and unpack it.

pack.json             the run folder's name, and the artifact file behind each of its links, by path
run/<path>            the other files of the run folder
artifacts/<key>/...   the artifacts, with their manifests
"""

import json
import os
import re
import shutil
import tarfile
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hardneg.records import ArtifactError, DataError
from hardneg.store.artifacts import MANIFEST, Artifact, Store, verified
from hardneg.store.content import disk_errors, flush, link_file, link_folder, replacing
from hardneg.store.outputs import publish, reserve

_INDEX = "pack.json"
_NAME = re.compile(rf"{_INDEX}|run/.+|artifacts/[0-9a-f]{{32}}/.+")


def pack(folder: Path, artifacts: dict[str, Artifact], file: Path) -> None:
    """Write a run folder and the artifacts of its steps into one tar file, compressed if its name ends in `.gz`.

    Raises ArtifactError if a file cannot be read or written.
    """
    sources = {f"artifacts/{each.key}/{name}": each.path / name for each in artifacts.values() for name in each.files}
    sources |= {f"artifacts/{each.key}/{MANIFEST}": each.path / MANIFEST for each in artifacts.values()}
    by_inode = {(state.st_dev, state.st_ino): name for name, path in sources.items() for state in [path.stat()]}
    links = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()):
        name, state = path.relative_to(folder).as_posix(), path.stat()
        if known := by_inode.get((state.st_dev, state.st_ino)):
            links[name] = known
        else:
            sources[f"run/{name}"] = path
    about = {"format": 1, "folder": folder.resolve().name, "files": len(sources), "links": links}
    index = json.dumps(about, indent=1).encode()

    def add(name: str, size: int, content: Any) -> None:
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = size, 0o644
        tar.addfile(entry, content)

    with disk_errors(file, "to"), replacing(file) as written, tarfile.open(fileobj=written, mode="w|") as tar:
        add(_INDEX, len(index), BytesIO(index))
        for name in sorted(sources):
            with sources[name].open("rb") as content:
                add(name, os.fstat(content.fileno()).st_size, content)


def unpack(file: Path, store: Store, folder: Path | None = None) -> Path:
    """Unpack the artifacts of a packed run into the store, and its run folder to `folder`; return the run folder.

    Every byte is verified before an artifact or the folder becomes visible. `folder` defaults to the packed name.

    Raises:
        DataError: the file is not a packed run, or contains links, devices, or paths that lead outside.
        ArtifactError: an artifact is damaged or differs from the stored one with the same key, or the folder exists.
    """
    store.root.mkdir(parents=True, exist_ok=True)
    with disk_errors(store.root), store.lock("unpack"):
        for left in store.root.glob(".unpack-*"):
            shutil.rmtree(left)
        with TemporaryDirectory(dir=store.root, prefix=".unpack-") as made:
            place = Path(made)
            for name in ("artifacts", "run"):
                (place / name).mkdir()
            count = _extract(file, place)
            try:
                index = json.loads((place / _INDEX).read_text("utf-8"))
                name, links = str(index["folder"]), {str(each): str(index["links"][each]) for each in index["links"]}
            except (OSError, ValueError, TypeError, KeyError) as error:
                raise DataError(f"{file}: not a packed run ({error})") from None
            if count != index.get("files"):
                raise DataError(f"{file}: truncated to {count} of {index.get('files')} files; copy it again")
            target = folder or Path(name)
            if not folder and not re.fullmatch(r"\w[\w.+-]*", name):
                raise DataError(f"{file}: invalid folder name {name!r}; give another with {{output}}", "output")
            if os.path.lexists(target):
                raise ArtifactError(f"{target}: already exists; give another folder with {{output}}", "output")
            new = _verified(place / "artifacts", store)
            for path in (place / "artifacts").rglob("*"):
                path.chmod(0o755 if path.is_dir() else 0o444)
                flush(path)
            for link, source in links.items():
                outside = link[:1] == "/" or ".." in (*Path(link).parts, *Path(source).parts)
                if outside or not (place / source).is_file():
                    raise DataError(f"{file}: {link} leads outside the run folder, or {source} is missing")
                link_file(place / source, place / "run" / link)
            keys = [path.name for path in (place / "artifacts").iterdir()]
            with reserve(store, "artifacts unpack", target, keys):
                for key in new:
                    with store.lock(key):
                        if store.find(key) is None:
                            os.replace(place / "artifacts" / key, store.root / key)
                flush(store.root)
                with publish(store, "recipe run", target, keys, [target]):
                    link_folder(place / "run", target)
    return target


def _extract(file: Path, place: Path) -> int:
    """Write the regular files of a tar file below `place` and return their number, excluding the index `pack.json`."""
    count = -1  # the index
    try:
        with tarfile.open(file, "r|*") as tar:
            for entry in tar:
                parts = Path(entry.name).parts
                if not entry.isreg() or not _NAME.fullmatch(entry.name) or ".." in parts:
                    raise DataError(f"{file}: {entry.name} is not a regular file of a packed run")
                path = place / entry.name
                path.parent.mkdir(parents=True, exist_ok=True)
                content, count = tar.extractfile(entry), count + 1
                with path.open("xb") as written:
                    shutil.copyfileobj(content or BytesIO(), written)
    except (tarfile.TarError, EOFError, FileExistsError, NotADirectoryError, FileNotFoundError) as error:
        raise DataError(f"{file}: not a packed run ({error}); give one written by `artifacts pack`") from None
    return count


def _verified(artifacts: Path, store: Store) -> list[str]:
    """Verify the unpacked artifacts, and return the keys of those that are not yet in the store."""
    unpacked, new = Store(artifacts), list[str]()
    for path in sorted(artifacts.iterdir()):
        found = verified(unpacked, path.name)
        artifact = None if found.problem or found.newer or found.size_only else unpacked.find(path.name)
        if artifact is None:
            raise ArtifactError(found.problem or f"{path.name}: cannot be verified; update hardneg, or pack a new run")
        files = {each.relative_to(path).as_posix() for each in path.rglob("*") if each.is_file()}
        if files != {*artifact.files, MANIFEST}:
            raise ArtifactError(f"{path.name}: has files that are not in its manifest")
        if (known := store.find(path.name)) is None:
            new.append(path.name)
        elif known.files != artifact.files:
            raise ArtifactError(
                f"{store.root / path.name}: differs from the packed artifact; unpack into another {{store}}", "store"
            )
    return new
