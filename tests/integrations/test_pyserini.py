"""Pyserini's own searchers open what a recipe leaves behind, and find the same."""

import numpy as np
import pytest
from recipes.recipes import plan_in, small_collection, small_tree

from hardneg.formats.runs import read_run
from hardneg.indexes.kernels.lucene import start_java
from hardneg.recipes.execute import Options, Watcher, execute
from hardneg.recipes.run_folder import publish
from hardneg.store.artifacts import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("pyserini")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    tree["stages"] = {
        "bm25-index": {"stage": "index", "backend": "bm25"},
        "bm25": {"stage": "search", "index": "bm25-index", "split": "test", "depth": 20},
        **{name: stage for name, stage in tree["stages"].items() if name not in {"scores", "report"}},
    }
    plan = plan_in(folder, tree)
    store = Store(folder / "store")
    outcome = execute(plan, store, Options(device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, folder / "out")
    return folder / "out", outcome


def queries(folder):
    import json

    texts = {row["_id"]: row["text"] for row in map(json.loads, (folder / "queries.jsonl").open())}
    return texts


def assert_same(run, search):
    for query_id, ranked in run.items():
        doc_ids, scores = ranked.doc_ids, ranked.scores
        hits = search(query_id, len(doc_ids))
        found = {hit.docid: hit.score for hit in hits}
        np.testing.assert_allclose(sorted(found.values(), reverse=True), scores, atol=1e-4)
        # at the last rank documents of equal score may change places with others outside the list
        certain = [doc_id for doc_id, score in zip(doc_ids, scores, strict=True) if score > scores[-1] + 1e-4]
        assert set(certain) <= set(found)
        np.testing.assert_allclose([found[doc_id] for doc_id in certain], scores[: len(certain)], atol=1e-4)


def test_faiss_searcher_gives_our_dense_run(finished):
    out, _ = finished
    start_java()
    from pyserini.encode import AutoQueryEncoder
    from pyserini.search.faiss import FaissSearcher

    encoder = AutoQueryEncoder(str(out / "model"), device="cpu", pooling="mean", l2_norm=True)
    searcher = FaissSearcher(str(out / "index"), encoder)
    texts = queries(out.parent / "data")
    run = read_run(out / "runs" / "star-test.trec.gz")
    assert len(list(run)) == 14
    assert_same(run, lambda query_id, k: searcher.search(texts[query_id], k))


def test_lucene_searcher_gives_our_bm25_run(finished):
    out, outcome = finished
    start_java()
    from pyserini.search.lucene import LuceneSearcher

    searcher = LuceneSearcher(str(outcome.artifacts["bm25-index"].path))
    texts = queries(out.parent / "data")
    run = read_run(out / "runs" / "bm25.trec.gz")
    assert len(list(run)) == 14
    assert_same(run, lambda query_id, k: searcher.search(texts[query_id], k))
