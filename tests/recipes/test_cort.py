"""CoRT's recipes and that of CoRT and ELECTRA: what they share, and what it takes to run them."""

import importlib.metadata
import importlib.util

import pytest
from recipes.recipes import NEEDS_PAPERS

from hardneg.recipes import find_recipe, load_recipe, make_plan

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


def test_reranking_begins_with_the_steps_of_what_is_reranked():
    mixed, reranked = (
        dict(make_plan(load_recipe(find_recipe(name), "demo"), []).keys)
        for name in ("cort-bm25", "cort-electra-passage")
    )
    assert all(mixed[step] == reranked[step] for step in mixed.keys() - {"scores", "report", "complement"})


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
