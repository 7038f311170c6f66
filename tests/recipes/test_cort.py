"""CoRT's recipes and that of CoRT and ELECTRA: what they share, and what it takes to run them."""

import importlib.metadata
import importlib.util

import pytest
from recipes.recipes import NEEDS_PAPERS

from hardneg.recipes.load import load_recipe
from hardneg.recipes.plan import make_plan
from hardneg.recipes.yaml_load import find_recipe
from hardneg.records.errors import RecipeError
from hardneg.registry import KINDS

pytestmark = NEEDS_PAPERS


@pytest.mark.parametrize("preset", ["demo", "paper"])
def test_zipping_begins_with_the_steps_of_the_ranker_alone(preset: str):
    alone, zipped = (
        dict(make_plan(load_recipe(find_recipe(name), preset), []).keys) for name in ("cort-passage", "cort-bm25")
    )
    shared = alone.keys() - {"scores", "dev-scores", "report"}
    assert {"cort", "cort-index", "cort-test", "bm25"} <= shared
    assert all(alone[step] == zipped[step] for step in shared)


def test_the_published_setting():
    recipe = load_recipe(find_recipe("cort-bm25"), "paper")
    model, options = recipe.model, recipe.stages["cort"].options
    built = (model.name, model.pooling, model.projection, model.activation)
    assert built == ("albert/albert-base-v2", "cls", 768, "tanh")
    assert (model.query_token_type, model.document_token_type, model.similarity) == (1, 0, "cosine")
    assert not model.layer_norm
    assert (options.batch_size, options.accumulate, options.epochs, options.max_steps) == (6, 100, 10, None)
    assert (options.optimizer, options.weight_decay, options.false_negative_mask) == ("adamw", 0.1, False)
    assert options.clip_norm == 0
    assert recipe.stages["cort-negatives"].miner.options == {"skip": 7, "depth": 100}
    assert recipe.plugins["cort", "loss"].margin == 0.1
    assert recipe.stages["cort-bm25"].labels == ["CoRT", "BM25"]


def test_a_misspelled_metric_is_told_before_anything_runs():
    told = r"(?s)scores\.metrics\.0: unknown metric 'ndgc@10'.*unjudged\.metrics\.0: unknown"
    wrong = ["stages.scores.metrics=[ndgc@10]", "stages.complement.analysis.unjudged.metrics=[precison@10]"]
    with pytest.raises(RecipeError, match=told):
        load_recipe(find_recipe("cort-bm25"), "demo", wrong)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["stages.bm25.scores=angular"], "scores: 'bm25-index' is searched with texts"),
        (["model.similarity=dot", "stages.cort-test.scores=angular"], "angular needs model.similarity: cosine"),
    ],
)
def test_scores_that_are_no_angles_are_told_too(settings: list[str], told: str):
    with pytest.raises(RecipeError, match=told):
        load_recipe(find_recipe("cort-bm25"), "demo", settings)


def test_reranking_begins_with_the_steps_of_what_is_reranked():
    mixed, reranked = (
        dict(make_plan(load_recipe(find_recipe(name), "demo"), []).keys)
        for name in ("cort-bm25", "cort-electra-passage")
    )
    assert all(mixed[step] == reranked[step] for step in mixed.keys() - {"scores", "report", "complement"})


def test_without_its_package_the_published_setting_says_what_to_install(monkeypatch):
    installed = [point for kind in KINDS for point in importlib.metadata.entry_points(group=f"hardneg.{kind}")]
    others = importlib.metadata.EntryPoints(point for point in installed if point.name != "electra")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda: others)
    with pytest.raises(RecipeError, match="in package hardneg-electra, which is not installed: pip install"):
        load_recipe(find_recipe("cort-electra-passage"), "paper")


@pytest.mark.skipif(not importlib.util.find_spec("hardneg_electra"), reason="hardneg-electra is not installed")
def test_the_published_setting_with_electra():
    recipe = load_recipe(find_recipe("cort-electra-passage"), "paper")
    options, setting = recipe.stages["reranker"].options, recipe.stages["reranker"].reranker
    assert (setting.name, setting.options["source"]) == ("electra", "google/electra-large-discriminator")
    pairs = options.batch_size * (1 + options.negatives_per_query)
    assert (pairs, options.accumulate, options.epochs, options.learning_rate) == (6, 100, 8, 5e-5)
    assert (options.optimizer, options.weight_decay, options.warmup_steps) == ("adamw", 0.1, 200)
    assert recipe.stages["reranker"].loss.name == "bce"
    assert recipe.stages["mixed-negatives"].miner.options["depth"] == 1000
    assert recipe.stages["cort-bm25-reranked"].depth == recipe.stages["bm25-reranked"].depth == 1000
