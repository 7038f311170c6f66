"""MaxSim in two stages: candidates by single vectors, then exact MaxSim among them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.formats.vectors.token_store import TokenStore
from hardneg.records.depths import MAXSIM_DEPTH
from hardneg.records.errors import UsageError
from hardneg.registry.protocols import RowLookup
from hardneg.runtime.progress import Progress

if TYPE_CHECKING:
    from hardneg.indexes.kernels.maxsim.maxsim_candidates import TwoStageSearcher

_POOLED = "pooled"


@dataclass(frozen=True)
class MultiVectorTwoStage:
    """MaxSim among candidates only, which a search among single vectors finds.

    Args:
        candidates: how many documents of a query are scored by MaxSim; a search for more takes as many.
        by: `pooled` retrieves the documents whose mean token vector is nearest to the query's; `tokens` those that hold
            the nearest vectors of its tokens, by an exact search among all of them.
        nearest: with `tokens`, how many vectors are retrieved for each token of a query.
    """

    candidates: int = MAXSIM_DEPTH
    by: Literal["pooled", "tokens"] = "pooled"
    nearest: int = 128

    version: ClassVar[int] = 1
    input: ClassVar[str] = "token-vectors"

    def __post_init__(self) -> None:
        for name in ("candidates", "nearest"):
            if getattr(self, name) < 1:
                raise UsageError(f"multi-vector-two-stage: {name} is {getattr(self, name)}: it must be at least 1")

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Build an index of the token vectors in folder `source`, with pooled ones beside them if needed."""
        from hardneg.indexes.kernels.maxsim.maxsim_candidates import write_pooled

        store = TokenStore.open(source)
        store.link(path)
        if self.by == "pooled":
            write_pooled(store, path / _POOLED, progress)
        return len(store)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """The vectors, as `multi-vector` has them, and one a document more where they are pooled."""
        return 4 * dimension * (vectors + documents * (self.by == "pooled"))

    def open(self, path: Path, rows: RowLookup | None = None) -> "TwoStageSearcher":
        """Open the index in folder `path`; a hit's row is the document's, and `rows` is unused."""
        from hardneg.indexes.kernels.maxsim.exact_maxsim import MultiVectorSearcher
        from hardneg.indexes.kernels.maxsim.maxsim_candidates import TwoStageSearcher

        pooled = FlatVectors.open(path / _POOLED) if self.by == "pooled" else None
        return TwoStageSearcher(MultiVectorSearcher(TokenStore.open(path)), pooled, self.candidates, self.nearest)
