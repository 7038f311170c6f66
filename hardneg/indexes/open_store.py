"""A folder of an encode stage, in shards or not, opened for exact search; and a search that resumes after a stop."""

import logging
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from zipfile import BadZipFile

import numpy as np

from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS, FlatVectors
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.kernels.max_passage import PooledSearcher
from hardneg.records.layout import SHARDS, WEIGHTS
from hardneg.records.types import Encoded, Hits
from hardneg.registry.plugins import load_plugin
from hardneg.registry.protocols import Searcher, StoredSearcher
from hardneg.runtime.progress import Progress
from hardneg.store.atomic_write import replacing


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


_log = logging.getLogger(__name__)


def search_kept(searcher: Searcher, queries: Sequence[str] | Encoded, k: int, path: Path) -> Hits:
    """The hits that `path.npz` keeps of an earlier call; else those of `searcher`, which are kept there.

    An exact search keeps checkpoints in the folder `path` and resumes from them, with the same hits to the bit. The
    caller passes another path for each search.
    """
    kept = path.with_name(f"{path.name}.npz")
    if (hits := _read(kept)) is None:
        hits = resumable(searcher, path).search(queries, k)
        with replacing(kept) as file:
            np.savez(file, rows=hits.rows, scores=hits.scores, allow_pickle=False)
        shutil.rmtree(path, ignore_errors=True)
    return hits


def resumable(searcher: Searcher, folder: Path) -> Searcher:
    """Return an exact searcher with checkpoints in a folder, and any other one itself."""
    if isinstance(searcher, PooledSearcher):
        return replace(searcher, searcher=resumable(searcher.searcher, folder))
    if isinstance(searcher, FlatSearcher) or getattr(searcher, "resumes", False):
        exact: Any = searcher
        return cast(Searcher, replace(exact, options=replace(exact.options or ExactOptions(), begun=folder)))
    kept: Any = searcher
    return cast(Searcher, replace(kept, begun=folder)) if hasattr(searcher, "begun") else searcher


def _read(path: Path) -> Hits | None:
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return Hits(arrays["rows"], arrays["scores"])
    except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
        _log.warning("%s: cannot be read (%s)", path, error)
        return None
