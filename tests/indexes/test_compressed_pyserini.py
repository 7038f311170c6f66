"""Pyserini's FaissSearcher opens compressed indexes and finds the same."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.indexes.backends.compressed import Fp16, Sq8
from hardneg.indexes.backends.hnsw import Hnsw
from hardneg.indexes.backends.inverted_lists import IvfFlat, IvfPq
from hardneg.indexes.backends.product import OpqPq, Pq
from hardneg.runtime.progress import Silent

pytestmark = pytest.mark.slow


def test_faiss_searcher_finds_the_same(opened: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(1)
    vectors = draw.standard_normal((200, 16)).astype(np.float32)
    with FlatWriter(tmp_path / "flat", 16, 200) as writer:
        writer.write_block(0, 0, vectors)
        writer.write_doc_ids(f"d{i}" for i in range(200))
        writer.close()
    queries = draw.standard_normal((5, 16)).astype(np.float32)
    plugins: list[Any] = [Pq(8, 4), OpqPq(8, 4), Sq8(), Fp16(), IvfPq(8, 4, 8, 4), IvfFlat(8, 4), Hnsw(m=8)]
    for plugin in plugins:
        path = tmp_path / type(plugin).__name__
        plugin.build(tmp_path / "flat", path, Silent())
        theirs, ours = opened(str(path), None), plugin.open(path).search(queries, 10)
        for query, rows, scores in zip(queries[:, None], ours.rows, ours.scores, strict=True):
            hits = theirs.search(query, k=10)
            assert [hit.docid for hit in hits] == [f"d{row}" for row in rows]
            np.testing.assert_allclose([hit.score for hit in hits], scores, atol=1e-5)
