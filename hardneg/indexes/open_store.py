"""A folder of an encode stage, in shards or not, opened for exact search."""

from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS, FlatVectors
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.records.layout import SHARDS, WEIGHTS
from hardneg.registry.plugins import load_plugin
from hardneg.registry.protocols import StoredSearcher
from hardneg.runtime.progress import Progress


def form_in(folder: Path) -> str | None:
    """Return the content of a folder as the `input` of backends; None for other folders."""
    if (folder / WEIGHTS).exists():
        return "weights"
    if not (folder / "index").exists() and not (folder / SHARDS).exists():
        return None
    return "token-vectors" if (folder / TOKEN_OFFSETS).exists() else "vectors"


def open_store(folder: Path, options: ExactOptions | None = None, progress: Progress | None = None) -> StoredSearcher:
    """Return the exact searcher of the folder.

    Raises:
        ArtifactError: a file is missing or damaged, or nothing there is known.
        PluginError: the package of its form is not installed.
    """
    if (folder / WEIGHTS).exists():
        return cast(StoredSearcher, replace(load_plugin("indexes", "sparse")().open(folder), progress=progress))
    if (folder / TOKEN_OFFSETS).exists():
        opened: Any = load_plugin("indexes", "multi-vector")().open(folder)
        return cast(StoredSearcher, replace(opened, options=options, progress=progress))
    return FlatSearcher(FlatVectors.open(folder), options=options, progress=progress)
