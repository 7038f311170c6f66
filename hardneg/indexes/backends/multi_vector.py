"""The multi-vector index: a vector for each token of a document, searched exactly by MaxSim."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from hardneg.formats.vectors.token_store import TokenStore
from hardneg.registry.protocols import RowLookup
from hardneg.runtime.progress import Progress

if TYPE_CHECKING:
    from hardneg.indexes.kernels.maxsim.exact_maxsim import MultiVectorSearcher


@dataclass(frozen=True)
class MultiVector:
    """Exact MaxSim over a vector for each token, as ColBERT scores; the folder of token vectors is the index."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "token-vectors"

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Build an index of the token vectors in folder `source` in folder `path`, by hard links where possible."""
        store = TokenStore.open(source)
        store.link(path)
        return len(store)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The vectors; the files are shared with the encode stage where possible."""
        return 4 * dimension * vectors

    def open(self, path: Path, rows: RowLookup | None = None) -> "MultiVectorSearcher":
        """Open the token vectors in folder `path`; a hit's row is the document's, and `rows` is unused."""
        from hardneg.indexes.kernels.maxsim.exact_maxsim import MultiVectorSearcher

        return MultiVectorSearcher(TokenStore.open(path))
