"""What opening a model takes: its files and sizes on this machine or on the hub; none is fetched."""

from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from hardneg.errors import ModelError
from hardneg.models.files import check_files
from hardneg.models.source import HUB_FILES, HubCommit, first_line, locate
from hardneg.models.spec import ModelSpec
from hardneg.models.weights import weights_in
from hardneg.types import Lookup


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
    if not any(path.rpartition("/")[2] == "config.json" for path in wanted):
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
    """The bytes of a model that the hub's cache holds whole; 0 where it does not."""
    from huggingface_hub import try_to_load_from_cache

    config = try_to_load_from_cache(found.repository, "config.json", revision=found.commit)
    if not isinstance(config, str):
        return 0
    folder = Path(config).parent
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
