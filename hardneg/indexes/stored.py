"""A folder that an encode stage wrote, in shards or not, opened as what its files say it is, for exact search."""

from pathlib import Path

from hardneg.data.flat import TOKEN_OFFSETS, FlatVectors
from hardneg.data.shards import SHARDS
from hardneg.data.sparse_store import SHAPE, SparseStore
from hardneg.data.token_store import TokenStore
from hardneg.indexes.exact import ExactOptions
from hardneg.indexes.flat import FlatSearcher
from hardneg.indexes.multi_vector_exact import MultiVectorSearcher
from hardneg.indexes.sparse import SparseSearcher
from hardneg.progress import Progress
from hardneg.protocols import StoredSearcher


def form_in(folder: Path) -> str | None:
    """What a folder holds, by the word that backends have for it as `input`; None where that is nothing of theirs."""
    if (folder / SHAPE).exists():
        return "weights"
    if not (folder / "index").exists() and not (folder / SHARDS).exists():
        return None
    return "token-vectors" if (folder / TOKEN_OFFSETS).exists() else "vectors"


def open_store(folder: Path, options: ExactOptions | None = None, progress: Progress | None = None) -> StoredSearcher:
    """The exact searcher of what is in the folder.

    Raises:
        ArtifactError: a file is missing or damaged, or nothing there is known.
    """
    if (folder / SHAPE).exists():
        return SparseSearcher(SparseStore.open(folder), progress)
    if (folder / TOKEN_OFFSETS).exists():
        return MultiVectorSearcher(TokenStore.open(folder), options, progress)
    return FlatSearcher(FlatVectors.open(folder), options, progress)
