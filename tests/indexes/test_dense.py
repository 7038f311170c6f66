"""Index folders of every dense kind, told by their files; errors over them are those of a full sort."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardneg.analysis.errors import Errors
from hardneg.analysis.inputs import Files, System
from hardneg.analysis.projection import Projection
from hardneg.indexes.backends.approximate import Hnsw, IvfFlat, IvfPq
from hardneg.indexes.backends.compressed import CompressedSearcher, Fp16, Sq8
from hardneg.indexes.backends.flat import Flat, FlatSearcher
from hardneg.indexes.backends.product import OpqPq, Pq, PqSearcher
from hardneg.indexes.dense import DenseIndex
from hardneg.records.errors import ArtifactError
from hardneg.runtime.progress import Silent
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


class Opened(Files):
    """An opened index; the vector of a query is that of the document that its text names."""

    def system(self, index: str, model: str) -> System:
        opened = DenseIndex.open(Path(self.named[index]))
        ids = [*opened.doc_ids]

        def rows(wanted: Sequence[str]) -> np.ndarray:
            return np.array([ids.index(doc_id) if doc_id in ids else -1 for doc_id in wanted], np.int64)

        def encode(texts: Sequence[str]) -> np.ndarray:
            return VECTORS[[int(text) for text in texts]]

        return System(opened.searcher, ids, rows, encode)

    def queries(self, split: str | None) -> dict[str, str]:
        return {"a": "2", "b": "9"}

    def qrels(self) -> dict[str, dict[str, int]]:
        return {"a": {"d1": 1, "d5": 1}, "b": {"d7": 1, "elsewhere": 1}}


def written(folder: Path) -> Path:
    return write_encoded(folder, VECTORS)


@pytest.mark.parametrize(("backend", "kind"), BACKENDS, ids=lambda item: getattr(type(item), "__name__", ""))
def test_a_folder_says_what_it_is(backend: Any, kind: type, tmp_path: Path) -> None:
    backend.build(written(tmp_path / "flat"), tmp_path / "index", Silent())
    index = DenseIndex.open(tmp_path / "index")
    assert type(index.searcher) is kind
    assert (index.dimension, len(index.doc_ids), index.doc_ids[59]) == (8, 60, "d59")
    scores = VECTORS[[2, 9]] @ backend.open(tmp_path / "index").vectors(np.arange(60)).T
    ranked = [np.argsort(-line, kind="stable").tolist() for line in scores]
    first, second = sorted(ranked[0].index(row) for row in (1, 5))
    asked = Errors(indexes={"it": str(tmp_path / "index")}, models={"it": "model"}, depth=10)
    opened = Opened({path: name for path, name, _ in asked.references()})
    found = asked.measure(opened)["it"]
    errors = [found["per_query"][query_id]["total"] for query_id in "ab"]
    assert errors == [first + second - 1, ranked[1].index(7)]
    assert found["left_out"] == {"positives that the index lacks": 1}
    both = dict.fromkeys(("it", "again"), str(tmp_path / "index"))
    shown = Projection(indexes=both, query="b", negatives=3)
    (found,) = shown.measure(Opened({path: name for path, name, _ in shown.references()}))
    assert found["documents"]["relevant"] == ["d7"] and len(found["documents"]["negatives"]) == 3
    assert "d7" not in found["documents"]["negatives"]
    assert found["points"]["it"]["scores"]["relevant"] == pytest.approx(scores[1, 7], rel=1e-5)


def test_what_is_no_dense_index_is_told(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"lucene: no dense index \(.*: index\): name a folder of `hardneg encode`"):
        DenseIndex.open(tmp_path / "lucene")
    folder = written(tmp_path / "flat")
    graph = faiss.IndexNSGFlat(8, 4, faiss.METRIC_INNER_PRODUCT)
    faiss.write_index(graph, str(folder / "index"))
    with pytest.raises(ArtifactError, match="index: IndexNSGFlat is none of the kinds flat, fp16, sq8, binary, pq"):
        DenseIndex.open(folder)
    faiss.write_index(faiss.IndexPQ(8, 4, 4, faiss.METRIC_INNER_PRODUCT), str(folder / "index"))
    with pytest.raises(ArtifactError, match="docid: 60 ids for 0 vectors: build the index again"):
        DenseIndex.open(folder)
    (folder / "index").write_bytes(b"something else")
    with pytest.raises(ArtifactError, match="index: not a faiss index that can be read"):
        DenseIndex.open(folder)
