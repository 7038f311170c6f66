"""Multi-vector indexes: an exact one, and one with product-quantised residuals."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.plugin import compression, errors, protocols, runtime
from hardneg_multi_vector.codes import CODES, CodedSearcher, TokenCodes, write_codes, write_lists
from hardneg_multi_vector.maxsim import MultiVectorSearcher
from hardneg_multi_vector.store import TokenStore

_NAME = "multi-vector-pq"
_EACH = 32  # vectors per centroid to train on, by default


@dataclass(frozen=True)
class MultiVector:
    """An index that stores token vectors unchanged, for exact search by MaxSim as in ColBERT."""

    version: ClassVar[int] = 1
    input: ClassVar[str] = "token-vectors"

    def build(self, source: Path, path: Path, progress: runtime.Progress) -> int:
        """Link or copy the token vectors from folder `source` to folder `path`; return the number of documents."""
        store = TokenStore.open(source)
        store.link(path)
        return len(store)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Return the size of the vectors in bytes; if the files are links, they take no additional space."""
        return 4 * dimension * vectors

    def open(self, path: Path, rows: protocols.RowLookup | None = None) -> MultiVectorSearcher:
        """Open the token vectors in folder `path`; hits are rows of documents, so `rows` is unused."""
        return MultiVectorSearcher(store=TokenStore.open(path))


@dataclass(frozen=True)
class MultiVectorPq:
    """An approximate MaxSim index that stores each token vector as a centroid and a product-quantised residual.

    A residual takes `subvectors` bytes. Each token also takes two bytes for the number of its centroid (four if there
    are more than 65,536 centroids), and at most four in the centroids' lists of documents.

    Args:
        subvectors: number of parts of a residual, one byte each; must divide the dimension.
        centroids: number of centroids; by default the largest power of two up to 4 * sqrt(number of tokens).
        probes: number of nearest centroids per query token; documents with a token assigned to them become candidates.
        candidates: number of documents to rerank by MaxSim per query, or the search depth if that is larger.
        sample: maximum number of token vectors to train on; by default 32 per centroid, at least 256.
        seed: seed of the sample and of the clustering.
    """

    subvectors: int = 32
    centroids: int | None = None
    probes: int = 4
    candidates: int = 1000
    sample: int | None = None
    seed: int = runtime.SEED

    version: ClassVar[int] = 1
    extra: ClassVar[str] = "cpu"
    input: ClassVar[str] = "token-vectors"

    def __post_init__(self) -> None:
        least = {"subvectors": 1, "centroids": 1, "probes": 1, "candidates": 1, "sample": 256}
        for name, bound in least.items():
            if (value := getattr(self, name)) is not None and value < bound:
                raise errors.UsageError(f"{_NAME}: {name} is {value}; it must be at least {bound}")

    def build(self, source: Path, path: Path, progress: runtime.Progress) -> int:
        """Compress the token vectors in folder `source` to folder `path`; return the number of documents.

        Raises MissingDependency if faiss is not installed.
        Raises UsageError if `subvectors` does not divide the dimension, or there are too few token vectors.
        """
        store, faiss = TokenStore.open(source), compression.load_faiss()
        lists = self.centroids or _usual(len(store.vectors))
        sample, least = self.sample or max(CODES, _EACH * lists), max(CODES, lists)
        compression.check_parts(_NAME, store.dimension, self.subvectors)
        what = f"{lists} lists" if lists == least else f"{CODES} centroids of a subvector"
        if min(len(store.vectors), sample) < least:
            raise errors.UsageError(
                f"{_NAME}: {source} has {len(store.vectors)} token vectors, and training uses at most {sample}, "
                f"but {what} need at least {least}; lower centroids, raise sample, or use the index multi-vector"
            )
        index = faiss.IndexIVFPQ(faiss.IndexFlatL2(store.dimension), store.dimension, lists, self.subvectors, 8)
        compression.Training(_NAME, sample, self.seed, least, what).train(index, store.vectors, progress)
        coded = compression.encode_blocks(store.vectors, index.sa_encode, progress)
        centroids = index.quantizer.reconstruct_n(0, lists)
        books = faiss.vector_to_array(index.pq.centroids).reshape(self.subvectors, CODES, -1)
        write_codes(path, centroids, books, coded, store)
        write_lists(path, lists, store)
        return len(store)

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Estimate the size of codes, centroids and lists in bytes; lists may be shorter than estimated."""
        lists = self.centroids or _usual(vectors)
        number = 2 if lists <= 1 << 16 else 4
        return vectors * (self.subvectors + number + 4) + 4 * dimension * lists

    def open(self, path: Path, rows: protocols.RowLookup | None = None) -> CodedSearcher:
        """Open the index in folder `path`; hits are rows of documents, so `rows` is unused."""
        return CodedSearcher(store=TokenCodes.open(path), probes=self.probes, candidates=self.candidates)


def _usual(tokens: int) -> int:
    """Return the largest power of two up to four times the square root of the number of tokens."""
    return 1 << max(0, (16 * tokens).bit_length() - 1) // 2
