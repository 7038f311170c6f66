"""Every kind of compressed index, with few centroids and lists, and vectors for it."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.vectors import FlatWriter
from hardneg.indexes.backends.compressed import Fp16, Hnsw, IvfFlat, IvfPq, Sq8
from hardneg.indexes.backends.product import Binary, OpqPq, Pq

KINDS = [Pq(subvectors=4, bits=4), Pq(subvectors=4, bits=6), OpqPq(subvectors=4, bits=4), Sq8(), Fp16()]
KINDS += [IvfPq(subvectors=4, bits=4, lists=8, nprobe=3), IvfFlat(lists=8, nprobe=3)]
KINDS += [Binary(), Pq(subvectors=16, bits=1), Hnsw(m=4, ef_construction=20, ef_search=20)]
COUNT, DIMENSION = 300, 16


def flat_index(path: Path, vectors: NDArray[np.float32]) -> Path:
    with FlatWriter(path, vectors.shape[1], len(vectors)) as writer:
        if len(vectors):
            writer.write(vectors)
        writer.write_doc_ids(f"d{i}" for i in range(len(vectors)))
        writer.close()
    return path


def drawn_vectors(count: int = COUNT, dimension: int = DIMENSION) -> NDArray[np.float32]:
    return np.random.default_rng(7).standard_normal((count, dimension)).astype(np.float32)


def kind_name(plugin: Any) -> str:
    return f"{type(plugin).__name__}-{getattr(plugin, 'bits', '')}"
