"""The recipe of CoRT and ELECTRA: what it shares with CoRT's own, and what it takes to run it."""

import importlib.metadata
import importlib.util

import pytest

from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.recipe.yaml_load import find_recipe
from hardneg.records.errors import RecipeError
from hardneg.registry.plugins import KINDS


def test_reranking_begins_with_the_steps_of_what_is_reranked():
    mixed, reranked = (
        dict(make_plan(load_recipe(find_recipe(name), "demo"), []).keys)
        for name in ("cort-bm25", "cort-electra-passage")
    )
    assert all(mixed[step] == reranked[step] for step in mixed.keys() - {"scores", "report"})


def test_without_its_package_the_published_setting_says_what_to_install(monkeypatch):
    installed = [point for kind in KINDS for point in importlib.metadata.entry_points(group=f"hardneg.{kind}")]
    others = importlib.metadata.EntryPoints(point for point in installed if point.name != "electra")
    monkeypatch.setattr("importlib.metadata.entry_points", lambda: others)
    with pytest.raises(RecipeError, match="in package hardneg-electra, which is not installed: pip install"):
        load_recipe(find_recipe("cort-electra-passage"), "paper")


@pytest.mark.skipif(not importlib.util.find_spec("hardneg_electra"), reason="hardneg-electra is not installed")
def test_the_published_setting():
    recipe = load_recipe(find_recipe("cort-electra-passage"), "paper")
    options, setting = recipe.stages["reranker"].options, recipe.stages["reranker"].reranker
    assert (setting.name, setting.options["source"]) == ("electra", "google/electra-large-discriminator")
    pairs = options.batch_size * (1 + options.negatives_per_query)
    assert (pairs, options.accumulate, options.epochs, options.learning_rate) == (6, 100, 8, 5e-5)
    assert (options.optimizer, options.weight_decay, options.warmup_steps) == ("adamw", 0.1, 200)
    assert recipe.stages["reranker"].loss.name == "bce"
    assert recipe.stages["mixed-negatives"].miner.options["depth"] == 1000
    assert recipe.stages["cort-bm25-reranked"].depth == recipe.stages["bm25-reranked"].depth == 1000
