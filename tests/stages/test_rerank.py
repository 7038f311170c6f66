"""Stage `rerank`."""

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

from hardneg.artifacts import Store
from hardneg.data.runs import read_run
from hardneg.errors import RecipeError
from hardneg.recipe.execute import Options, Watcher, execute
from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.rerankers.cross_encoder import CrossEncoder


@pytest.fixture
def planned(tmp_path, tiny_model):
    """Plans stages over a search of the test queries."""
    collection = small_collection(tmp_path / "data")

    def plan(stages):
        tree = small_tree(collection, tiny_model)
        kept = {name: tree["stages"][name] for name in ("start-index", "start-test", "start-train")}
        tree["stages"] = {**kept, **stages}
        return make_plan(load_recipe(write_recipe(tmp_path / "r.yaml", tree)))

    return plan


@pytest.fixture
def made(tmp_path, planned):
    """The artifacts of some stages by name, made in a store of their own."""

    def make(stages):
        return execute(planned(stages), Store(tmp_path / "store"), Options(device="cpu"), Watcher()).artifacts

    return make


def run_of(artifact):
    return read_run(artifact.path / "run.trec.gz")


def rerank(model, **more):
    plugin = {"name": "cross-encoder", "source": str(model), "length": 32}
    return {"stage": "rerank", "plugin": plugin, "run": "start-test", "precision": "fp32", **more}


def test_the_top_is_scored_by_the_reranker(made, tiny_model):
    artifacts = made({"all": rerank(tiny_model, depth=20), "top": rerank(tiny_model, depth=3)})
    before, after, top = (run_of(artifacts[name]) for name in ("start-test", "all", "top"))
    assert after.query_ids == before.query_ids and len(after.query_ids) == 14
    assert [set(ids) for ids in after.doc_ids] == [set(ids) for ids in before.doc_ids]
    assert [set(ids) for ids in top.doc_ids] == [set(ids[:3]) for ids in before.doc_ids]
    assert after.doc_ids != before.doc_ids
    assert artifacts["top"].facts["pairs"] == 42
    texts = ["the old river was seen again near river"]
    (score,) = next(CrossEncoder(str(tiny_model), length=32).rerank([("old river", texts)]))
    assert 0 < score < 1 and all(((s > 0) & (s < 1)).all() for s in after.scores)


def test_positives_that_the_run_lacks_are_scored_too(made, tiny_model):
    plain = rerank(tiny_model, run="start-train", split="train", depth=2)
    artifacts = made({"plain": plain, "whole": {**plain, "positives": True}})
    plain, whole = run_of(artifacts["plain"]), run_of(artifacts["whole"])
    added = 0
    for query_id, ids, more in zip(plain.query_ids, plain.doc_ids, whole.doc_ids, strict=True):
        assert set(more) == {*ids, f"d{query_id[1:]}"}
        added += len(more) - len(ids)
    assert artifacts["whole"].facts["positives that the run lacks"] == added > 0
    assert artifacts["whole"].facts["pairs"] == 72 + added


def test_a_rerankers_content_is_in_the_key_and_its_place_is_not(planned, tiny_model, tmp_path):
    key = planned({"r": rerank(tiny_model)}).keys["r"]
    other = tmp_path / "elsewhere"
    other.symlink_to(tiny_model)
    assert planned({"r": rerank(other, tokens_per_batch=64)}).keys["r"] == key
    changed = rerank(tiny_model)
    changed["plugin"]["length"] = 33
    assert planned({"r": changed}).keys["r"] != key


def test_one_reranker_is_needed(planned, tiny_model):
    with pytest.raises(RecipeError, match="give reranker, the name"):
        planned({"r": {"stage": "rerank", "run": "start-test"}})
    with pytest.raises(RecipeError, match="'start-test' makes run, but reranker is needed"):
        planned({"r": {"stage": "rerank", "run": "start-test", "reranker": "start-test"}})
