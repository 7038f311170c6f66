"""A graph of full vectors: a search goes from neighbour to neighbour, nearer to the query at each step.

Source: Y. Malkov, D. Yashunin, Efficient and robust approximate nearest neighbor search using Hierarchical Navigable
Small World graphs, TPAMI 2020 (algorithms 1 and 5); its M, efConstruction and ef.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hardneg.formats.vectors.flat_vectors import FlatVectors
from hardneg.indexes.backends.compressed import Compressed
from hardneg.indexes.kernels.faiss.compression import encode_blocks, load_faiss, make_room, save, threads
from hardneg.records.errors import UsageError
from hardneg.runtime.progress import Progress
from hardneg.runtime.seeding import SEED

_LEVEL_BYTES = 12  # a vector: its level, and where its links begin


@dataclass(frozen=True)
class Hnsw(Compressed):
    """A hierarchical graph over full vectors: the fastest search on a CPU, in memory and slow to build.

    Args:
        m: links of a vector on the upper levels; twice as many on the lowest one. From 2.
        ef_construction: how many near vectors are held while the links of a new one are looked for.
        ef_search: how many near vectors a search holds, at least the requested depth; it is stored in the index.
        threads: of the build. With 1 the same vectors, options and machine give the same bytes; with more the links
            depend on which thread is first, and recall stays as it is.
        seed: of the levels.
    """

    m: int = 32
    ef_construction: int = 200
    ef_search: int = 128
    threads: int = 1
    seed: int = SEED

    version: ClassVar[int] = 1

    def __post_init__(self) -> None:
        least = {"m": 2, "ef_construction": 1, "ef_search": 1, "threads": 1}
        wrong = [f"{name} is {getattr(self, name)}" for name, low in least.items() if getattr(self, name) < low]
        if wrong:
            raise UsageError(f"hnsw: {', '.join(wrong)}: m must be at least 2, the others at least 1")

    def disk_bytes(self, documents: int, vectors: int, dimension: int) -> int:
        """Vectors and links."""
        return vectors * (4 * dimension + 8 * self.m + 4 * self.m // (self.m - 1) + _LEVEL_BYTES)

    def build(self, source: Path, path: Path, progress: Progress) -> int:
        """Link the vectors of the dense index folder `source`, block by block; return their number.

        Raises:
            MissingDependency: without faiss.
        """
        vectors = FlatVectors.open(source)
        faiss = load_faiss()
        index = faiss.IndexHNSWFlat(vectors.dimension, self.m, faiss.METRIC_INNER_PRODUCT)
        index.hnsw.efConstruction, index.hnsw.efSearch = self.ef_construction, self.ef_search
        index.hnsw.rng = faiss.RandomGenerator(self.seed)
        make_room(faiss.downcast_index(index.storage), len(vectors))
        with threads(self.threads):
            for _ in encode_blocks(vectors, index.add, progress):
                pass
        return save(index, len(vectors), source, path)
