"""The recipe of what is recommended: its stages, and what it says above them."""

from dataclasses import replace

import yaml
from api.small_sweep import FALSE, FOUND, answer_of, trials
from tiny import tiny_static

from hardneg.api.recommended_recipe import RecommendRequest
from hardneg.api.recommending import fitted
from hardneg.encoders.spec import ModelSpec
from hardneg.recipe.load import load_recipe

TREE = {"dataset": "pydocs", "model": {"name": "m"}, "seed": 7}
FACTS = {"splits": {"train": {"queries": 9}, "dev": {"queries": 9}}}


def test_table_sentence_and_recipe_say_the_same(tmp_path):
    answer = answer_of(FALSE, trials(0.1, 0.3, 0.4))  # by the rule 20 a query, by the trainings 10
    sweep, tried = answer.tables()
    assert [line[:2] for line in sweep.rows if line[-1] == "chosen"] == [["topk", "10"]]
    assert [line[:2] for line in tried.rows if line[-1] == "chosen"] == [["topk", "10"]]
    assert answer.evidence().startswith("Chosen: topk, 10 a query")
    assert "The recipe has topk, 10 a query" in " ".join(answer.tried_in_words())
    assert answer.to_dict()["chosen"] == answer.sweep()["chosen"] == 0
    text = answer.recipe(RecommendRequest("dev", 20, None, {}), TREE, FACTS, tmp_path / "r.yaml")
    assert "miner:\n      name: topk\n      depth: 10\n" in text
    none = answer_of(FOUND, trials(0.5, 0.3, 0.4)).tables()
    assert [[line[0] for line in table.rows if line[-1] == "chosen"] for table in none] == [
        [],
        ["in-batch negatives alone"],
    ]


def test_a_static_model_gets_the_rate_of_one(tmp_path, tiny_model):
    asked = RecommendRequest("dev", 20, None, {})
    tiny_static(tmp_path / "model")
    found = fitted(asked, ModelSpec(str(tmp_path / "model")))
    assert found.usual == {"learning_rate": 0.01, "weight_decay": 0.0} and found.temperature == 0.05
    assert fitted(asked, ModelSpec("packaged:wordllama")).usual["learning_rate"] == 0.03
    assert fitted(asked, ModelSpec(str(tiny_model), similarity="dot")) == replace(asked, temperature=1.0)


def test_bm25_and_the_top_of_the_lists_stand_beside(tmp_path):
    asked, given = RecommendRequest("dev", 20, None, {"learning_rate": 0.5}), (TREE, FACTS, tmp_path / "r.yaml")
    (tmp_path / "r.yaml").write_text(answer_of(FOUND).recipe(asked, *given))
    recipe = load_recipe(tmp_path / "r.yaml", None, [])
    scores = recipe.stages["scores"]
    assert {"Hard Neg", "In-Batch Neg", "Top 20", "BM25", "as shipped"} == set(scores.runs)
    assert scores.baselines == ("In-Batch Neg", "Top 20", "as shipped", "BM25")
    top = recipe.stages["top-negatives"]
    assert (top.miner.name, top.miner.options) == ("topk", {"depth": 20}) and top.runs == {"dense": "train-run"}
    assert recipe.stages["top"].options == recipe.stages["model"].options
    chosen = answer_of(FALSE).recipe(replace(asked, bm25=False), *given)  # itself the top of the lists
    assert yaml.safe_load(chosen)["stages"].keys().isdisjoint({"top", "top-negatives", "bm25-index", "bm25-run"})


def test_the_recipe_that_is_written(tmp_path):
    asked = RecommendRequest(
        "dev", 20, {"name": "cross-encoder", "source": "ce"}, {"learning_rate": 0.5}, temperature=1.0
    )
    tree, facts = TREE, FACTS
    found = {**FALSE, "chosen": 2}
    text = answer_of(found).recipe(asked, tree, facts, tmp_path / "r.yaml")
    head = text.partition("title:")[0]
    assert "# There is no split test: it is measured on split dev, by which the negatives were chosen." in head
    assert all(line.startswith("#") and len(line) <= 120 for line in head.splitlines())
    (tmp_path / "r.yaml").write_text(text)
    recipe = load_recipe(tmp_path / "r.yaml", None, [])
    assert recipe.seed == 7 and recipe.stages["scores"].split == "dev" and recipe.stages["start-run"].split == "dev"
    mined, judge = recipe.stages["negatives"], recipe.stages["train-reranked"]
    assert mined.runs == {"dense": "train-run", "scores": "train-reranked"}
    assert mined.miner.options == {"share": 0.95, "depth": 20, "count": 10} and judge.positives and judge.depth == 20
    assert recipe.stages["model"].options.negatives_per_query == 1
    assert recipe.stages["in-batch"].options.negatives_per_query == 0 and recipe.outputs["model"] == "model"
    assert recipe.stages["model"].options.learning_rate == 0.5 and recipe.stages["model"].options.weight_decay == 0.01
    usual = {"learning_rate": 0.03, "weight_decay": 0.0}
    text = answer_of(found).recipe(replace(asked, usual=usual), tree, facts, tmp_path / "r.yaml")
    assert "learning_rate: 0.5" in text and "weight_decay: 0.0" in text and "a static model's rate and decay" in text
    enough = answer_of(FOUND, median_rank=99.0).recipe(asked, tree, facts, tmp_path / "r.yaml")
    assert "outputs:\n  model: in-batch\n" in enough and "# For the top of the lists (MRR@10): in-batch" in enough
    alone = answer_of(found, trials(0.2, 0.1, 0.1))
    assert "outputs:\n  model: in-batch\n" in alone.recipe(asked, tree, facts, tmp_path / "r.yaml")
