"""Open index folders according to the files in them, regardless of the backend or stage that wrote them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from hardneg.formats.vectors import FLAT, TOKEN_OFFSETS, DocIds, FlatVectors
from hardneg.indexes import compressed, exact, product
from hardneg.protocols import DenseSearcher, StoredSearcher
from hardneg.records import SHARDS, WEIGHTS, ArtifactError
from hardneg.registry import load_plugin
from hardneg.runtime import Progress


def form_in(folder: Path) -> str | None:
    """Return the form of a folder's encoded texts: `weights`, `token-vectors` or `vectors`; None if there are none."""
    if (folder / WEIGHTS).exists():
        return "weights"
    if not (folder / "index").exists() and not (folder / SHARDS).exists():
        return None
    return "token-vectors" if (folder / TOKEN_OFFSETS).exists() else "vectors"


def open_store(
    folder: Path, options: exact.ExactOptions | None = None, progress: Progress | None = None
) -> StoredSearcher:
    """Open a folder of encoded texts, in any form that `form_in` returns, for exact search.

    Raises:
        ArtifactError: a file is missing or damaged, or the form of the texts is unknown.
        PluginError: the package for the form is not installed.
    """
    if (folder / WEIGHTS).exists():
        return cast(StoredSearcher, replace(load_plugin("indexes", "sparse")().open(folder), progress=progress))
    if (folder / TOKEN_OFFSETS).exists():
        opened: Any = load_plugin("indexes", "multi-vector")().open(folder)
        return cast(StoredSearcher, replace(opened, options=options, progress=progress))
    return exact.FlatSearcher(FlatVectors.open(folder), options, progress)


@dataclass(frozen=True)
class DenseIndex:
    """An open index folder: the searcher, the vector dimension, and the document id of each row."""

    folder: Path
    searcher: DenseSearcher
    dimension: int
    doc_ids: Sequence[str]

    @classmethod
    def open(cls, folder: Path) -> "DenseIndex":
        """Open a folder written by a dense backend of hardneg, or by Pyserini in the same format.

        Raises:
            MissingDependency: the index is compressed, and faiss is not installed.
            ArtifactError: a file is missing or damaged, or the index is of another type.
        """
        begin = FLAT
        if not (folder / SHARDS).exists():
            try:
                with (folder / "index").open("rb") as file:
                    begin = file.read(len(FLAT))
            except OSError as error:
                wanted = "use a folder with files index and docid, from `hardneg encode` or `hardneg index build`"
                raise ArtifactError(f"{folder}: not a dense index (index: {error.strerror}); {wanted}") from error
        if begin == FLAT:
            vectors = FlatVectors.open(folder)
            return cls(folder, exact.FlatSearcher(vectors), vectors.dimension, vectors.doc_ids)
        opened, doc_ids = _compressed(folder), DocIds(folder / "docid")
        if len(doc_ids) != opened.index.ntotal:
            counts = f"{len(doc_ids)} ids for {opened.index.ntotal} vectors"
            raise ArtifactError(f"{folder / 'docid'}: {counts}; rebuild the index")
        return cls(folder, opened, int(opened.index.d), doc_ids)


def _compressed(folder: Path) -> compressed.CompressedSearcher:
    opened, faiss = compressed.CompressedSearcher.open(folder), compressed.load_faiss()
    inner = compressed.innermost(opened.index)
    if isinstance(inner, faiss.IndexPQ):
        signs = np.abs(faiss.vector_to_array(inner.pq.centroids))
        binary = (inner.pq.M, inner.pq.nbits) == (inner.d, 1) and np.allclose(signs, inner.d**-0.5, rtol=0, atol=1e-6)
        return (product.BinarySearcher if binary else product.PqSearcher)(opened.path, opened.index)
    if not isinstance(inner, faiss.IndexScalarQuantizer | faiss.IndexIVFPQ | faiss.IndexIVFFlat | faiss.IndexHNSW):
        known = "flat, fp16, sq8, binary, pq, opq-pq, ivf-flat, ivfpq, hnsw"
        raise ArtifactError(f"{folder / 'index'}: {type(inner).__name__} is not supported; supported backends: {known}")
    return opened
