"""Guides, masks and second models, as a recipe says them."""

import numpy as np
import pytest
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part
from tiny import tiny_encoder

from hardneg.encoders.open.resolved import load_learner
from hardneg.encoders.spec import ModelSpec
from hardneg.records import RecipeError
from hardneg.stages.train import Train
from hardneg.training.checkpoint import History

EVERY = ["query-document", "query-query", "document-query", "document-document"]


def tree_of(collection, model, other):
    tree = small_part(collection, model, "start-index", "start-train", "static", "star")
    star = tree["stages"]["star"]
    guided = {**star, "loss": {"name": "infonce", "temperature": 0.05, "directions": EVERY}, "guide": "guide"}
    guided |= {"guided_mask": {"margin": 0.05, "kind": "relative"}, "self_mask": 0.1}
    tree["stages"] |= {
        "another": {"stage": "model", "model": {"name": str(other), "query_length": 16, "document_length": 24}},
        "guide": {"stage": "encode", "model": "another"},
        "guided": guided,
        "taught": {**star, "loss": {"name": "margin-mse", "temperature": 0.1}, "guide": "guide"},
    }
    return tree


@pytest.fixture(scope="module")
def tree(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("guided")
    return tree_of(small_collection(folder / "data"), tiny_model, tiny_encoder(folder / "other", seed=1))


@pytest.fixture(scope="module")
def finished(tmp_path_factory, tree):
    folder = tmp_path_factory.mktemp("finished")
    plan = plan_in(folder, {**tree, "stages": {name: spec for name, spec in tree["stages"].items() if name != "star"}})
    return artifacts_of(plan, folder / "store")


@pytest.mark.slow
def test_a_second_model_is_kept_and_encodes(finished, tree):
    spec = tree["stages"]["another"]["model"]
    own = load_learner(ModelSpec(**spec), "cpu").encode(["a red river"], "query")
    kept = load_learner(finished["another"].path / "model", "cpu").encode(["a red river"], "query")
    assert np.array_equal(own, kept)
    assert finished["another"].facts["dimension"] == 32


@pytest.mark.slow
def test_trainings_with_a_guide(finished):
    for name in ("guided", "taught"):
        losses = [record["loss"] for record in History(finished[name].path / "history.jsonl").read()]
        assert len(losses) == 4 and all(np.isfinite(losses)) and losses[-1] > 0
        assert {path.name for path in finished[name].path.iterdir()} == {"model", "history.jsonl", "manifest.json"}
    card = (finished["guided"].path / "model" / "README.md").read_text()
    assert "- Guide: guide\n" in card and "- Guided mask: relative margin 0.05\n- Self-mask: margin 0.1\n" in card


def test_keys(tmp_path, tree):
    before = plan_in(tmp_path, tree).keys
    changed = {
        "stages.guided.guided_mask.margin=0.1": {"guided"},
        "stages.guided.self_mask=null": {"guided"},
        "stages.another.model.query_prompt='ask: '": {"another", "guide", "guided", "taught"},
        "stages.guided.guide=start-index": {"guided"},
    }
    for setting, names in changed.items():
        after = plan_in(tmp_path, tree, setting).keys
        assert {name for name in before if before[name] != after[name]} == names
    plain = {"stage": "train", "loss": "star", "negatives": "some-negatives"}
    assert {"guide", "guided_mask", "self_mask"}.isdisjoint(Train.model_validate(plain).identity())


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (["guided.guide=null", "guided.self_mask=null"], r"guided\.guide: missing; guided_mask needs its scores: name"),
        (["star.guide=guide"], r"star\.guide: nothing uses it; give guided_mask, or a loss that learns from it"),
        (["star.guide=guide", "star.teacher=start-train", "star.loss=kl"], r"star\.guide: nothing uses it; give guid"),
        (["guided.guided_mask.margin=-1"], r"guided\.guided_mask: margin must be 0 or above, not -1"),
        (["guided.guided_mask.kind=none"], r"guided\.guided_mask\.kind"),
        (["guided.self_mask=-0.5"], r"guided\.self_mask"),
        (["taught.guide=null"], r"taught\.teacher: missing; margin-mse learns a run's scores"),
        (["taught.loss.in_batch=0.75"], r"taught\.teacher: missing; margin-mse learns a run's scores beside the guid"),
        (["taught.loss.in_batch=0.75", "taught.guide=null"], r"taught\.guide: missing; margin-mse needs its scores"),
        (["guided.segments={length: 8, count: 2}"], r"guided\.segments: have no scores with each other"),
        (["guide.segments={length: 8, count: 2}"], r"guided\.guide: 'guide' holds several vectors a document; name on"),
        (["guided.guide=start-train"], r"guided\.guide: 'start-train' makes run, but index is needed"),
        (["another.model=7"], r"another\.model"),
    ],
)
def test_mistakes(tmp_path, tree, settings, told):
    with pytest.raises(RecipeError, match=told):
        plan_in(tmp_path, tree, *(f"stages.{setting}" for setting in settings))


def test_a_wrong_loss_is_told_alone(tmp_path, tree):
    with pytest.raises(RecipeError) as told:
        plan_in(tmp_path, tree, "stages.taught.loss.in_batch=-1")
    assert "1 problem" in str(told.value) and "in_batch must be 0 or above, not -1" in str(told.value)


def test_losses_of_one_side_in_stages_without_it(tmp_path, tree):
    stage = {"stage": "train-queries", "index": "start-index", "depth": 4}
    stage["loss"] = {"name": "infonce", "directions": ["query-document", "query-query"]}
    with pytest.raises(RecipeError, match="infonce needs query_query, which this stage's batches lack; use it in stag"):
        plan_in(tmp_path, {**tree, "stages": {**tree["stages"], "queries": stage}})
