"""Stages over documents in segments: encoded, searched, indexed again, and gone on with after a kill."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from numpy.typing import NDArray
from processes import codes, launch
from recipes.recipes import (
    artifacts_of,
    large_collection,
    long_collection,
    plan_in,
    small_part,
    small_tree,
    write_recipe,
)

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.formats.collection import StoredCollection
from hardneg.formats.runs import read_run
from hardneg.formats.segments import Segments
from hardneg.formats.vectors import FlatVectors
from hardneg.indexes.candidate_scoring import fill_from_model, pooled
from hardneg.indexes.open_store import open_store
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.records import Negatives, RecipeError
from hardneg.store import Artifact, Store
from tests.run_lists import doc_lists, score_lists

CUT = {"length": 12, "count": 5}


def tree(collection: Path, model: Path) -> dict[str, Any]:
    whole = small_part(collection, model, "start-index", "start-test")
    whole["stages"]["start-index"] |= {"segments": CUT, "precision": "fp32"}
    return whole


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("segments")
    wanted = tree(long_collection(folder / "data"), tiny_model)
    wanted["stages"]["half"] = {"stage": "index", "vectors": "start-index", "backend": "fp16"}
    wanted["stages"]["half-test"] = {"stage": "search", "index": "half", "split": "test", "depth": 20}
    return write_recipe(folder / "r.yaml", wanted)


@pytest.fixture(scope="module")
def made(recipe: Path) -> dict[str, Artifact]:
    pytest.importorskip("faiss")
    plan = make_plan(load_recipe(recipe))
    return dict(artifacts_of(plan, recipe.parent / "store"))


def test_the_index_holds_each_segment_under_its_documents_id(made):
    """Ten tokens of text a segment, five segments; documents have 8 to 67 words of one to three tokens."""
    facts = made["start-index"].facts
    flat = FlatVectors.open(made["start-index"].path)
    assert sorted(path.name for path in made["start-index"].path.iterdir()) == ["docid", "index", "manifest.json"]
    assert facts["passages"] == 60 and facts["segments"] == len(flat) > 150
    assert facts["documents cut off"] == 49
    assert made["half"].facts["passages"] == 60 and made["half"].facts["segments"] == len(flat)
    ids = [flat.doc_ids[row] for row in range(len(flat))]
    assert ids[0] == "d0#0" and ids[-5:] == [f"d59#{number}" for number in range(5)]


def best_scores(collection: StoredCollection, encoder: Encoder) -> NDArray[np.float32]:
    """float32 [test queries, 60], by the definition."""
    fp32 = EncodeOptions(precision="fp32")
    vectors, counts = encoder.encode_segments(collection.corpus.contents(np.arange(60)), Segments(**CUT), fp32)
    products = encoder.encode(collection.queries("test").texts, "query", fp32) @ vectors.T
    return np.maximum.reduceat(products, np.cumsum(counts) - counts, axis=1)


@pytest.fixture(scope="module")
def opened(made: dict[str, Artifact], tiny_model: Path) -> tuple[StoredCollection, Encoder]:
    encoder = load_learner(ModelSpec(str(tiny_model), query_length=16, document_length=24), "cpu")
    return StoredCollection.open(made["dataset"].path), encoder


def test_a_run_ranks_documents_by_their_best_segment(made, opened):
    collection = opened[0]
    queries, best = collection.queries("test"), best_scores(*opened)
    for name, tolerance in {"start-test": 1e-5, "half-test": 2e-3}.items():
        run = read_run(made[name].path / "run.trec.gz")
        assert list(run) == list(queries.query_ids)
        for scores, doc_ids, expected in zip(score_lists(run), doc_lists(run), best, strict=True):
            assert len(set(doc_ids)) == 20
            np.testing.assert_allclose(scores, -np.sort(-expected)[:20], atol=tolerance)
            np.testing.assert_allclose(expected[collection.corpus.rows(doc_ids)], scores, atol=tolerance)


def test_scores_of_positives_are_those_of_their_best_segment(made, opened):
    """Queries 46 and 59 are the first and the last of the split; two documents of the second."""
    collection, encoder = opened
    positives = {"q46": ["d46"], "q59": ["d59", "d3"]}
    scores = {query_id: np.full(len(doc_ids), np.nan, np.float32) for query_id, doc_ids in positives.items()}
    lists = [Negatives(query_id, doc_ids, [], np.empty(0, np.float32)) for query_id, doc_ids in positives.items()]
    folder = made["start-index"].path
    searcher = pooled(open_store(folder), folder, collection.corpus.doc_ids)
    fill_from_model(
        scores, lists, collection.queries("test"), collection, lambda texts: encoder.encode(texts, "query"), searcher
    )
    best = best_scores(*opened)
    np.testing.assert_allclose(scores["q46"], best[0, [46]], atol=1e-5)
    np.testing.assert_allclose(scores["q59"], best[13, [59, 3]], atol=1e-5)


def test_a_recipe_of_segments_trains_and_is_judged_by_them(recipe, tiny_model, tmp_path):
    whole = small_tree(recipe.parent / "data", tiny_model)
    whole["segments"] = {"length": 24, "stride": 11, "count": 20}
    whole["stages"]["start-dev"] = {"stage": "search", "index": "start-index", "split": "dev"}
    whole["stages"]["star"] |= {"validation_run": "start-dev"}
    plan = plan_in(tmp_path, whole)
    made = artifacts_of(plan, recipe.parent / "store", until="star-test")
    facts = made["star-index"].facts
    assert facts["segments"] == made["start-index"].facts["segments"] and not facts["documents cut off"]
    assert 0 < made["star"].facts["best dev mrr@10"] <= 1
    assert "by the best of up to 20 segments of 24 tokens" in (made["star"].path / "model" / "README.md").read_text()
    assert len(set(doc_lists(read_run(made["star-test"].path / "run.trec.gz"))[0])) == 20


def test_vectors_by_segment_are_refused_where_a_document_needs_one(recipe):
    learning = "{stage: train-queries, index: half, loss: lambda}"
    with pytest.raises(RecipeError, match=r"stages.adore.index: 'half' holds several vectors a document"):
        load_recipe(recipe, settings=[f"stages.adore={learning}"])


KILLED = """
import os, signal, sys
from hardneg.store.blocks import BlockStore
from hardneg.encoders import stream
from hardneg.cli.main import app

write = BlockStore.write
def killed(self, number, block):
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, number, block)

BlockStore.write = killed
stream.BLOCK = 40
app(sys.argv[1:])
"""


def test_a_killed_run_goes_on_to_the_same_bytes(recipe, made, monkeypatch):
    from hardneg.encoders import stream

    store = recipe.parent / "killed"
    command = ["recipe", "run", str(recipe), "--store", str(store), "--until", "start-index", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    line = [sys.executable, "-c", KILLED, *command]
    killed = forked.run(line, capture_output=True, env=environment, cwd=recipe.parent)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    (left,) = store.glob("*.partial/checkpoints")
    assert (left / "segments-0-of-1.npy").exists() and len(list((left / "blocks").glob("*.npz"))) == 3
    monkeypatch.setattr(stream, "BLOCK", 40)
    plan = make_plan(load_recipe(recipe))
    after = artifacts_of(plan, store, until="start-index")["start-index"]
    assert (after.path / "docid").read_bytes() == (made["start-index"].path / "docid").read_bytes()
    again = execute(plan, Store(recipe.parent / "whole"), Options("start-index", device="cpu"), Watcher())
    whole = again.artifacts["start-index"].path
    assert (after.path / "index").read_bytes() == (whole / "index").read_bytes()


@pytest.mark.slow
def test_two_processes_write_the_bytes_of_one(tmp_path, tiny_model):
    """9,000 documents of up to 40 tokens: several blocks of at most 4,096 vectors."""
    wanted = tree(large_collection(tmp_path / "data"), tiny_model)
    wanted["stages"]["start-index"]["segments"] = {"length": 8, "stride": 4, "count": 4}
    path = write_recipe(tmp_path / "r.yaml", wanted)
    command = ["-m", "hardneg", "recipe", "run", path, "--until", "start-test", "--device", "cpu"]
    for number in (1, 2):
        assert codes(launch([*command, "--store", number], number, cwd=tmp_path)) == [0] * number
    keys = make_plan(load_recipe(path)).keys
    for name in ("start-index", "start-test"):
        one, two = (Store(tmp_path / number).find(keys[name]) for number in "12")
        assert one is not None and two is not None
        files = sorted(file.name for file in one.path.iterdir() if file.name != "manifest.json")
        assert files == sorted(file.name for file in two.path.iterdir() if file.name != "manifest.json") != []
        assert all((one.path / file).read_bytes() == (two.path / file).read_bytes() for file in files)
