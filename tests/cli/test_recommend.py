"""`hardneg recommend`: what it prints and writes, and that the recipe runs."""

import json
from dataclasses import replace

import pytest
from recipe.recipes import small_collection
from tiny import tiny_static
from typer.testing import CliRunner

from hardneg.api.recommendation import Recommendation
from hardneg.api.recommended_recipe import Asked
from hardneg.api.recommending import fitted
from hardneg.cli.main import app
from hardneg.encoders.spec import ModelSpec
from hardneg.errors import RecipeError, UsageError
from hardneg.recipe.load import load_recipe

ROWS = [
    {"miner": {"name": "topk", "depth": 10}, "by": "", "let_in": 0.5, "planted": 0.1, "hardness": -0.1, "enough": 1.0},
    {"miner": {"name": "topk", "depth": 20}, "by": "", "let_in": 0.5, "planted": 0.01, "hardness": -0.2, "enough": 1.0},
    {
        "miner": {"name": "pos-percent", "share": 0.95, "depth": 20, "count": 10},
        "by": "reranked",
        "let_in": None,
        "planted": None,
        "hardness": None,
        "enough": 0.0,
    },
]
FOUND = {"miners": ROWS, "chosen": 1, "kept": True, "listed": 20, "best_of_each_depth": [1, 0], "rule": {"said": "R."}}

ROW_0 = {**FOUND, "chosen": 0}


@pytest.fixture
def hardneg(tmp_path, monkeypatch):
    """Runs `recommend` in a folder with a collection and a model; gives what it printed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    small_collection(tmp_path / "data")

    def run(*arguments):
        given = ["recommend", "--dataset", "beir:data", "--model", "model", "--device", "cpu", *map(str, arguments)]
        result = CliRunner().invoke(app, given, env={"COLUMNS": "200"})
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == 0, result.output
        return result

    return run


def test_by_the_rule_or_by_trials():
    assert Recommendation(FOUND, None, None).place == 1
    trials = {"in-batch": 0.1, "model-1": 0.3, "model-2": 0.4}
    assert Recommendation(FOUND, trials, 5).place == 0
    assert Recommendation(FOUND, {**trials, "model-1": 0.4}, 5).place == 1  # of equal ones the first
    told = " ".join(Recommendation(FOUND, trials, 5).tried_in_words())
    assert told.endswith("in-batch negatives alone 0.1000, topk, 20 a query 0.3000, topk, 10 a query 0.4000.")
    assert not Recommendation(FOUND, {**trials, "in-batch": 0.4}, 5).alone
    poor = Recommendation(FOUND, {**trials, "in-batch": 0.5}, 5)
    assert poor.alone and " ".join(poor.tried_in_words()).endswith("these alone are recommended.")
    assert poor.rule().endswith("in this order: R.") and "training of 5 steps has the highest mrr@10" in poor.rule()


def test_the_evidence_in_words():
    told = Recommendation(FOUND, None, None).evidence()
    assert told.startswith("Chosen: topk, 20 a query: lets in 50.0% of what is planted, 1.0% of its negatives are")
    assert "Beside it" not in told and "Beside it, topk, 20 a query" in Recommendation(ROW_0, None, None).evidence()
    missed = Recommendation({**FOUND, "chosen": 2, "kept": False}, None, None).evidence()
    assert "pos-percent 0.95 by reranked, 10 a query" in missed and "hardness unknown" in missed
    assert missed.endswith("No miner keeps both conditions of the rule: this is the nearest to them.")


@pytest.fixture
def model(tmp_path):
    """A model at the place that `hardneg` names."""
    tiny_static(tmp_path / "model")


@pytest.mark.slow
def test_it_chooses_and_writes_a_recipe_and_figures(hardneg, model, tmp_path):
    first = hardneg("--depth", "20", "--train-option", "learning_rate=0.01")
    assert "one half of a known positive" in first.stdout and "chosen" in first.stdout
    assert first.stdout.splitlines()[-1] == "recommended.yaml: hardneg recipe run recommended.yaml"
    assert {path.suffix for path in tmp_path.glob("recommended.*")} == {".yaml", ".png", ".svg"}
    text = (tmp_path / "recommended.yaml").read_text()
    assert "# The rule: The hardest negatives" in text and "  # Chosen: " in text
    recipe = load_recipe(tmp_path / "recommended.yaml", None, [])
    assert recipe.stages["model"].options.learning_rate == 0.01 and recipe.stages["scores"].split == "test"
    again = hardneg("--depth", "20", "--json", "--overwrite")
    found = json.loads(again.stdout)
    assert found["recipe"] == "recommended.yaml" and found["trials"] is None
    miner = found["miners"][found["chosen"]]["miner"]
    assert {"name": recipe.stages["negatives"].miner.name, **recipe.stages["negatives"].miner.options} == miner
    assert again.stderr.count("in the store") == 4
    with pytest.raises(RecipeError, match=r"split other has no queries; there are dev, test, train"):
        hardneg("--split", "other", "--output", "other.yaml")


def test_a_static_model_gets_the_rate_of_one(tmp_path, tiny_model):
    asked = Asked("dev", 20, None, {})
    tiny_static(tmp_path / "model")
    found = fitted(asked, ModelSpec(str(tmp_path / "model")))
    assert found.usual == {"learning_rate": 0.01, "weight_decay": 0.0} and found.temperature == 0.05
    assert fitted(asked, ModelSpec("packaged:wordllama")).usual["learning_rate"] == 0.03
    assert fitted(asked, ModelSpec(str(tiny_model), similarity="dot")) == replace(asked, temperature=1.0)


@pytest.mark.slow
def test_trainings_choose(hardneg, model, tmp_path):
    out = hardneg("--depth", "12", "--train", "2", "--train-option", "batch_size=8", "--output", "best.yaml").stdout
    assert "mrr@10 on the dev queries after 2 steps: in-batch negatives alone 0." in out
    text = (tmp_path / "best.yaml").read_text()
    assert "max_steps: 2" in text and "on the dev queries after 2 steps" in text
    ran = CliRunner().invoke(app, ["recipe", "run", "best.yaml", "--output", "made", "--device", "cpu"])
    assert ran.exit_code == 0 and "Hard Neg" in ran.stdout


def test_the_recipe_that_is_written(tmp_path):
    asked = Asked("dev", 20, {"name": "cross-encoder", "source": "ce"}, {"learning_rate": 0.5}, temperature=1.0)
    tree = {"dataset": "pydocs", "model": {"name": "m"}, "seed": 7}
    facts = {"splits": {"train": {"queries": 9}, "dev": {"queries": 9}}}
    found = {**FOUND, "planted": {"kind": "judged", "queries": 9, "planted": 12}, "chosen": 2}
    text = Recommendation(found, None, None).recipe(asked, tree, facts, tmp_path / "r.yaml")
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
    text = Recommendation(found, None, None).recipe(replace(asked, usual=usual), tree, facts, tmp_path / "r.yaml")
    assert "learning_rate: 0.5" in text and "weight_decay: 0.0" in text and "a static model's rate and decay" in text
    alone = Recommendation(found, {"in-batch": 0.2, "model-1": 0.1, "model-2": 0.1}, 5)
    assert "outputs:\n  model: in-batch\n" in alone.recipe(asked, tree, facts, tmp_path / "r.yaml")


@pytest.mark.slow
def test_a_reranker_is_a_second_judge_of_judged_positives(hardneg, model, tiny_reranker, tmp_path):
    qrels = tmp_path / "data" / "qrels" / "dev.tsv"
    others = "".join(f"q{i}\td{i + 1}\t1\n" for i in range(36, 46))
    qrels.write_text(qrels.read_text() + others)
    setting = "stages.sweep.analysis.miner-sweep.least_judged=5"
    given = ["--depth", "20", "--reranker", f"cross-encoder:{tiny_reranker}", "--option", "length=32", "--set", setting]
    found = json.loads(hardneg(*given, "--json").stdout)
    assert found["planted"] == {"kind": "judged", "planted": 10, "queries": 10} and found["unused"] == []
    assert {row["by"] for row in found["miners"]} == {"", "reranked"}
    assert all(row["planted"] is not None for row in found["miners"] if row["miner"]["name"] == "topk")


def test_mistakes_are_told_before_any_work(hardneg, tmp_path):
    with pytest.raises(UsageError, match=r"best.txt: is to be a recipe; give a name that ends in .yaml"):
        hardneg("--output", "best.txt")
    with pytest.raises(RecipeError) as told:
        hardneg("--train-option", "learning_rat=1", "--set", "model.nam=x", "--reranker", "cross-encodr:model")
    assert all(part in str(told.value) for part in ("learning_rat", "model.nam", "'cross-encoder'"))
    assert not (tmp_path / "recommended.yaml").exists()
