"""Errors and projections on every kind of index."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hardneg_papers.analyses.errors import Errors
from hardneg_papers.analyses.projection import Projection

from hardneg.analysis.inputs import Files, System
from hardneg.indexes.compressed import Fp16, Hnsw, Sq8
from hardneg.indexes.exact import Flat
from hardneg.indexes.open_store import DenseIndex
from hardneg.indexes.product import IvfFlat, IvfPq, OpqPq, Pq
from hardneg.runtime import Silent
from hardneg.testing.indexes import write_encoded

pytest.importorskip("faiss")

BACKENDS = [
    Flat(),
    Fp16(),
    Sq8(),
    Pq(subvectors=4, bits=4),
    OpqPq(subvectors=4, bits=4, iterations=2),
    IvfPq(subvectors=4, bits=4, lists=4, nprobe=1),
    IvfFlat(lists=4, nprobe=1),
    Hnsw(m=4),
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


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda item: type(item).__name__)
def test_errors_and_projections_are_by_what_the_index_stores(backend: Any, tmp_path: Path) -> None:
    backend.build(write_encoded(tmp_path / "flat", VECTORS), tmp_path / "index", Silent())
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
