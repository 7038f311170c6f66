"""Pyserini, with its own SPLADE encoder on the same folder, opens a recipe's impact index and finds the same."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hardneg_sparse.store import SparseStore
from recipes.recipes import plan_in, small_collection
from safetensors.torch import load_file

from hardneg.formats.runs import read_run
from hardneg.integrations.pyserini import openings
from hardneg.recipes import Options, Watcher, execute, publish
from hardneg.store import Store
from tests.tiny import tiny_masked_lm

pytestmark = pytest.mark.slow

_DEPTH = 20


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, started_java):
    folder = tmp_path_factory.mktemp("sparse")
    model = tiny_masked_lm(folder / "splade-model")
    search = {"stage": "search", "split": "test", "depth": _DEPTH}
    stages = {
        "weights": {"stage": "encode"},
        "impact": {"stage": "index", "backend": {"name": "impact", "scale": 51.2}, "vectors": "weights"},
        "exact": {**search, "index": "weights"},
        "lucene": {**search, "index": "impact"},
    }
    settings = {"name": str(model), "encoder": "sparse", "query_length": 16, "document_length": 24}
    tree = {"dataset": f"beir:{small_collection(folder / 'data')}", "model": settings, "stages": stages}
    plan, store = plan_in(folder, tree), Store(folder / "store")
    outcome = execute(plan, store, Options(device="cpu"), Watcher())
    publish(plan, outcome.artifacts, store, folder / "out")
    return folder, outcome


def _texts(folder: Path) -> dict[str, str]:
    return {row["_id"]: row["text"] for row in map(json.loads, (folder / "data" / "queries.jsonl").open())}


def test_the_store_has_the_vocabularys_tokens(finished):
    from transformers import AutoTokenizer

    folder, outcome = finished
    store = SparseStore.open(outcome.artifacts["weights"].path)
    vocabulary = AutoTokenizer.from_pretrained(folder / "splade-model").get_vocab()
    assert store.terms is not None
    assert {term: number for number, term in enumerate(store.terms)} == vocabulary


def test_lucene_gives_the_exact_scores_but_for_rounding(finished):
    folder, _ = finished
    exact, lucene = (dict(read_run(folder / "out" / "runs" / f"{name}.trec.gz")) for name in ("exact", "lucene"))
    assert len(exact) == len(lucene) == 14
    for query_id, ranked in exact.items():
        np.testing.assert_allclose(lucene[query_id].scores, ranked.scores, rtol=0.02)


def test_pyserinis_splade_encoder_finds_what_the_recipe_found(finished):
    folder, outcome = finished
    from pyserini.encode import SpladeQueryEncoder
    from pyserini.search.lucene import LuceneImpactSearcher

    model = folder / "splade-model"
    torch.save(load_file(model / "model.safetensors"), model / "pytorch_model.bin")  # from 2.1 on it reads this alone
    encoder = SpladeQueryEncoder(str(model))
    searcher = LuceneImpactSearcher(str(outcome.artifacts["impact"].path), encoder, min_idf=-1)
    texts = _texts(folder)
    for query_id, ranked in dict(read_run(folder / "out" / "runs" / "lucene.trec.gz")).items():
        hits = searcher.search(texts[query_id], _DEPTH)
        scores = np.array([hit.score for hit in hits]) / 51.2**2
        np.testing.assert_allclose(scores, ranked.scores, rtol=1e-5)
        found = {hit.docid for hit in hits}
        certain = ranked.scores > ranked.scores[-1] * (1 + 1e-5)
        assert {doc_id for doc_id, sure in zip(ranked.doc_ids, certain, strict=True) if sure} <= found


def test_printed_lines_find_the_same(finished):
    folder, _ = finished
    programs = dict(openings(folder / "out", Store(folder / "store")))
    text = programs["weights"]
    assert text.startswith("# Pyserini cannot open") and "build an `impact` index" in text
    space: dict[str, Any] = {}
    exec(compile(programs["impact"], "lines", "exec"), space)
    texts = _texts(folder)
    for query_id, ranked in dict(read_run(folder / "out" / "runs" / "lucene.trec.gz")).items():
        scores = [hit.score / 51.2**2 for hit in space["searcher"].search(texts[query_id], k=_DEPTH)]
        np.testing.assert_allclose(scores, ranked.scores, rtol=1e-4)
