"""The stages of the trainings, and the recipe of the best: its stages, and what it says above them."""

from dataclasses import replace

import yaml
from hardneg_advice.recommend import fitted
from hardneg_advice.trials import RecommendRequest
from small_sweep import FALSE, FOUND, ROWS, answer_of, trials
from tiny import tiny_static

from hardneg.encoders.spec import ModelSpec
from hardneg.recipe.load import load_recipe

ASKED = RecommendRequest("dev", 20, None, {}, usual_rates=(0.01, 0.03), bm25=True)


def recipe_of(answer, folder):
    (folder / "r.yaml").write_text(answer.recipe(folder / "r.yaml"))
    return load_recipe(folder / "r.yaml", None, [])


def test_each_arm_is_trained_at_each_rate_beside_the_model_as_shipped():
    judge = {"name": "cross-encoder", "source": "ce"}
    stages = replace(ASKED, reranker=judge).trials({"in-batch": None, "first": ROWS[0], "swept": ROWS[2]}, 5)
    assert [*stages["trials"]["runs"]] == ["as shipped", "BM25"] + [
        f"{arm} at {rate}" for arm in ("in-batch", "first", "swept") for rate in (0.01, 0.03)
    ]
    assert stages["first-negatives"]["miner"] == ROWS[0]["miner"]
    assert stages["swept-negatives"]["runs"] == {"dense": "train-run", "scores": "train-reranked"}
    alone, first = stages["in-batch at 0.01"], stages["first at 0.03"]
    assert alone["options"] == {"negatives_per_query": 0, "learning_rate": 0.01, "max_steps": 5}
    assert first["negatives"] == "first-negatives" and first["options"]["learning_rate"] == 0.03
    assert alone["loss"] == first["loss"] == {"name": "infonce", "temperature": 0.05}
    assert replace(ASKED, options={"learning_rate": 0.5}).rates == [0.5]


def test_the_recipe_trains_as_the_best_trial_did(tmp_path):
    answer = answer_of(FOUND, trials(0.2, 0.3, 0.4))
    recipe, stages = recipe_of(answer, tmp_path), answer.request.trials({"in-batch": None, "first": ROWS[0]}, 5)
    assert recipe.outputs["model"] == "model"
    written = yaml.safe_load((tmp_path / "r.yaml").read_text())["stages"]
    for name, tried in (("model", "first at 0.03"), ("in-batch", "in-batch at 0.03")):
        same = {key: value for key, value in written[name].items() if key not in ("system", "negatives")}
        assert same == {key: value for key, value in stages[tried].items() if key != "negatives"}
    assert written["negatives"]["miner"] == ROWS[0]["miner"]
    head = (tmp_path / "r.yaml").read_text().partition("title:")[0]
    assert "# Train with topk, 10 a query: learning rate 0.03, 5 steps" in head and "0.4000" in head
    alone = answer_of(FOUND, trials(0.2, 0.4, 0.3))
    assert recipe_of(alone, tmp_path).outputs["model"] == "in-batch"


def test_a_static_model_has_the_rates_of_one(tmp_path, tiny_model):
    asked = RecommendRequest("dev", 20, None, {})
    tiny_static(tmp_path / "model")
    static = fitted(asked, ModelSpec(str(tmp_path / "model")))
    assert static.rates == (0.01, 0.03, 0.1) and static.usual == {"weight_decay": 0.0} and static.temperature == 0.05
    other = fitted(asked, ModelSpec(str(tiny_model), similarity="dot"))
    assert other.rates == (1e-5, 3e-5, 1e-4) and other.temperature == 1.0 and not other.usual


def test_bm25_and_the_model_as_shipped_stand_beside(tmp_path):
    recipe = recipe_of(answer_of(FOUND), tmp_path)
    scores = recipe.stages["scores"]
    assert {"Hard Neg", "In-Batch Neg", "BM25", "as shipped"} == set(scores.runs)
    assert scores.baselines == ("In-Batch Neg", "as shipped", "BM25")
    assert recipe.stages["bm25-index"].backend.options == {"language": "auto"}
    bare = recipe_of(answer_of(FOUND, asked=replace(ASKED, bm25=False)), tmp_path)
    assert bare.stages.keys().isdisjoint({"bm25-index", "bm25-run"})


def test_a_guess_is_a_recipe_too(tmp_path):
    judge = {"name": "cross-encoder", "source": "ce"}
    asked = RecommendRequest("dev", 20, judge, {"learning_rate": 0.5}, temperature=1.0, usual={"weight_decay": 0.0})
    recipe = recipe_of(answer_of({**FALSE, "chosen": 2}, asked=asked), tmp_path)
    head = (tmp_path / "r.yaml").read_text().partition("title:")[0]
    assert "# There is no split test: it is measured on split dev, by which it was chosen." in head
    assert "# A guess without a training: pos-percent" in head
    assert all(line.startswith("#") and len(line) <= 120 for line in head.replace(str(tmp_path), "").splitlines())
    assert recipe.seed == 7 and recipe.stages["scores"].split == "dev" and recipe.stages["start-run"].split == "dev"
    mined, judged = recipe.stages["negatives"], recipe.stages["train-reranked"]
    assert mined.runs == {"dense": "train-run", "scores": "train-reranked"}
    assert mined.miner.options == {"share": 0.95, "depth": 20, "count": 10} and judged.positives and judged.depth == 20
    options = recipe.stages["model"].options
    assert (options.learning_rate, options.weight_decay, options.max_steps) == (0.5, 0.0, 400)
    assert recipe_of(answer_of(FOUND, above=0.9), tmp_path).outputs["model"] == "in-batch"
