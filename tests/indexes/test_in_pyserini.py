"""Indexes of ours, opened by Pyserini."""

from typing import Any

import numpy as np
import pytest

from hardneg.formats.segments import segment_ids
from hardneg.formats.vectors import FlatVectors, FlatWriter
from hardneg.indexes.candidate_scoring import pooled
from hardneg.indexes.compressed import Fp16, Hnsw, Sq8
from hardneg.indexes.exact import Flat, FlatSearcher
from hardneg.indexes.product import Binary, IvfFlat, IvfPq, OpqPq, Pq
from hardneg.runtime import Silent
from hardneg.testing.indexes import write_encoded

pytestmark = pytest.mark.slow


def test_faiss_searcher_finds_the_same(opened, tmp_path):
    draw = np.random.default_rng(1)
    vectors = draw.standard_normal((200, 16)).astype(np.float32)
    write_encoded(tmp_path / "flat", vectors)
    queries = draw.standard_normal((5, 16)).astype(np.float32)
    plugins: list[Any] = [Flat(), Binary(), Pq(8, 4), OpqPq(8, 4), Sq8(), Fp16(), IvfPq(8, 4, 8, 4), IvfFlat(8, 4)]
    for plugin in [*plugins, Hnsw(m=8)]:
        path = tmp_path / type(plugin).__name__
        plugin.build(tmp_path / "flat", path, Silent())
        theirs, ours = opened(str(path), None), plugin.open(path).search(queries, 10)
        for query, rows, scores in zip(queries[:, None], ours.rows, ours.scores, strict=True):
            hits = theirs.search(query, k=10)
            assert [hit.docid for hit in hits] == [f"d{row}" for row in rows]
            np.testing.assert_allclose([hit.score for hit in hits], scores, atol=1e-5)


def test_faiss_searcher_finds_the_same_documents(opened, tmp_path):
    draw = np.random.default_rng(3)
    counts = draw.integers(1, 5, 60)
    doc_ids, total = [f"D{i}" for i in range(60)], int(counts.sum())
    with FlatWriter(tmp_path, 16, total) as writer:
        writer.write(draw.standard_normal((total, 16)).astype(np.float32))
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
