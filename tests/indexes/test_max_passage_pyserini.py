"""Pyserini's FaissSearcher opens an index of segments; read as its --max-passage does, it finds the same documents."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardneg.formats.segments import segment_ids
from hardneg.formats.vectors.flat_vectors import FlatVectors, FlatWriter
from hardneg.indexes.backends.flat import FlatSearcher
from hardneg.indexes.kernels.max_passage import pooled

pytestmark = pytest.mark.slow


def test_faiss_searcher_finds_the_same_documents(opened: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    counts = draw.integers(1, 5, 60)
    doc_ids, total = [f"D{i}" for i in range(60)], int(counts.sum())
    with FlatWriter(tmp_path, 16, total) as writer:
        writer.write_block(0, 0, draw.standard_normal((total, 16)).astype(np.float32))
        writer.write_doc_ids(segment_ids(doc_ids, counts.tolist()))
        writer.close()
    queries = draw.standard_normal((6, 16)).astype(np.float32)
    ours = pooled(FlatSearcher(FlatVectors.open(tmp_path)), tmp_path, doc_ids).search(queries, 10)
    theirs = opened(str(tmp_path), None)
    for query, rows, scores in zip(queries[:, None], ours.rows, ours.scores, strict=True):
        best: dict[str, float] = {}
        for hit in theirs.search(query, k=40):
            best.setdefault(hit.docid.split("#")[0], hit.score)
        assert list(best)[:10] == [doc_ids[row] for row in rows]
        np.testing.assert_allclose(list(best.values())[:10], scores, atol=1e-5)
