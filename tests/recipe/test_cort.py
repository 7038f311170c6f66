"""The recipes of CoRT: what they share, and the published setting."""

import pytest

from hardneg.recipe.load import load_recipe
from hardneg.recipe.plan import make_plan
from hardneg.recipe.yaml_load import find_recipe
from hardneg.records.errors import RecipeError


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
    assert (model.name, model.pooling, model.projection, model.activation) == (
        "albert/albert-base-v2",
        "cls",
        768,
        "tanh",
    )
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
        (["stages.bm25.scores=angular"], "angular needs vectors, and bm25-index has none"),
        (["model.similarity=dot", "stages.cort-test.scores=angular"], "angular needs model.similarity: cosine"),
    ],
)
def test_scores_that_are_no_angles_are_told_too(settings: list[str], told: str):
    with pytest.raises(RecipeError, match=told):
        load_recipe(find_recipe("cort-bm25"), "demo", settings)
