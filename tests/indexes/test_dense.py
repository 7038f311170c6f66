"""Index folders of every dense kind, told by their files."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardneg.indexes.backends.compressed import CompressedSearcher, Fp16, Hnsw, IvfFlat, IvfPq, Sq8
from hardneg.indexes.backends.flat import Flat, FlatSearcher
from hardneg.indexes.backends.product import OpqPq, Pq, PqSearcher
from hardneg.indexes.open_store import DenseIndex
from hardneg.records import ArtifactError
from hardneg.runtime import Silent
from hardneg.testing.forms import write_encoded

faiss = pytest.importorskip("faiss")

BACKENDS: list[tuple[Any, type]] = [
    (Flat(), FlatSearcher),
    (Fp16(), CompressedSearcher),
    (Sq8(), CompressedSearcher),
    (Pq(subvectors=4, bits=4), PqSearcher),
    (OpqPq(subvectors=4, bits=4, iterations=2), PqSearcher),
    (IvfPq(subvectors=4, bits=4, lists=4, nprobe=1), CompressedSearcher),
    (IvfFlat(lists=4, nprobe=1), CompressedSearcher),
    (Hnsw(m=4), CompressedSearcher),
]
VECTORS = np.random.default_rng(3).standard_normal((60, 8)).astype(np.float32)


def written(folder: Path) -> Path:
    return write_encoded(folder, VECTORS)


@pytest.mark.parametrize(("backend", "kind"), BACKENDS, ids=lambda item: getattr(type(item), "__name__", ""))
def test_a_folder_says_what_it_is(backend: Any, kind: type, tmp_path: Path) -> None:
    backend.build(written(tmp_path / "flat"), tmp_path / "index", Silent())
    index = DenseIndex.open(tmp_path / "index")
    assert type(index.searcher) is kind
    assert (index.dimension, len(index.doc_ids), index.doc_ids[59]) == (8, 60, "d59")


def test_what_is_no_dense_index_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"lucene: no dense index \(.*: index\): name a folder of `hardneg encode`"):
        DenseIndex.open(tmp_path / "lucene")
    folder = written(tmp_path / "flat")
    graph = faiss.IndexNSGFlat(8, 4, faiss.METRIC_INNER_PRODUCT)
    faiss.write_index(graph, str(folder / "index"))
    with pytest.raises(ArtifactError, match="index: IndexNSGFlat is none of flat, fp16, sq8, binary, pq"):
        DenseIndex.open(folder)
    faiss.write_index(faiss.IndexPQ(8, 4, 4, faiss.METRIC_INNER_PRODUCT), str(folder / "index"))
    with pytest.raises(ArtifactError, match="docid: 60 ids for 0 vectors: build the index again"):
        DenseIndex.open(folder)
    (folder / "index").write_bytes(b"something else")
    with pytest.raises(ArtifactError, match="index: not a faiss index that can be read"):
        DenseIndex.open(folder)
