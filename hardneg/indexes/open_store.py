"""A folder of an encode stage, in shards or not, opened for exact search."""

from pathlib import Path

from hardneg.formats.vectors.flat_vectors import TOKEN_OFFSETS, FlatVectors
from hardneg.formats.vectors.sparse_store import SHAPE, SparseStore
from hardneg.formats.vectors.token_store import TokenStore
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.backends.sparse import SparseSearcher
from hardneg.indexes.kernels.exact.exact import ExactOptions
from hardneg.indexes.kernels.maxsim.exact_maxsim import MultiVectorSearcher
from hardneg.records.layout import SHARDS
from hardneg.registry.protocols import StoredSearcher
from hardneg.runtime.progress import Progress


def form_in(folder: Path) -> str | None:
    """Return the content of a folder as the `input` of backends; None for other folders."""
    if (folder / SHAPE).exists():
        return "weights"
    if not (folder / "index").exists() and not (folder / SHARDS).exists():
        return None
    return "token-vectors" if (folder / TOKEN_OFFSETS).exists() else "vectors"


def open_store(folder: Path, options: ExactOptions | None = None, progress: Progress | None = None) -> StoredSearcher:
    """Return the exact searcher of the folder.

    Raises:
        ArtifactError: a file is missing or damaged, or nothing there is known.
    """
    if (folder / SHAPE).exists():
        return SparseSearcher(SparseStore.open(folder), progress)
    if (folder / TOKEN_OFFSETS).exists():
        return MultiVectorSearcher(TokenStore.open(folder), options=options, progress=progress)
    return FlatSearcher(FlatVectors.open(folder), options=options, progress=progress)
