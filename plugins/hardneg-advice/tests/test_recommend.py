"""`hardneg recommend`: what it prints and writes, and that the recipe runs."""

import json

import pytest
from recipe.recipes import small_collection
from tiny import tiny_static
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.recipe.load import load_recipe
from hardneg.records.errors import RecipeError, UsageError


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


@pytest.fixture
def model(tmp_path):
    """A model at the place that `hardneg` names."""
    tiny_static(tmp_path / "model")


@pytest.mark.slow
def test_trainings_choose_and_a_recipe_and_figures_are_written(hardneg, model, tmp_path):
    options = ("--depth", "12", "--train", "2", "--train-option", "batch_size=8")
    first = hardneg(*options, "--output", "best.yaml").stdout
    assert first.startswith(("Train with ", "Train nothing: ")) and "queries of dev" in first.splitlines()[0]
    assert all(row in first for row in ("the model as shipped", "in-batch negatives alone", "topk, 10 a query", "BM25"))
    assert all(rate in first for rate in ("at 0.01", "at 0.03", "at 0.1")) and "one half of a known positive" in first
    assert "Without a training it would have said: For the top of the lists (MRR@10): " in first
    assert first.splitlines()[-1] == "best.yaml: hardneg recipe run best.yaml"
    assert {path.suffix for path in tmp_path.glob("best.*")} == {".yaml", ".png", ".svg"}
    recipe = load_recipe(tmp_path / "best.yaml", None, [])
    assert recipe.stages["model"].options.max_steps == 2 and recipe.stages["scores"].split == "test"
    ran = CliRunner().invoke(app, ["recipe", "run", "best.yaml", "--output", "made", "--device", "cpu"])
    assert ran.exit_code == 0 and all(name in ran.stdout for name in ("Hard Neg", "In-Batch Neg", "BM25", "as shipped"))
    out = hardneg(*options, "--goal", "recall", "--train-option", "learning_rate=0.5", "--output", "depth.yaml").stdout
    assert "recall@100 on dev" in out and "mrr@10 on" not in out and "at 0.5" in out and "at 0.01" not in out


@pytest.mark.slow
def test_without_a_training_the_rule_guesses(hardneg, model, tmp_path):
    first = hardneg("--depth", "20", "--train", "0", "--train-option", "batch_size=2").stdout
    assert first.startswith("A guess without a training: ") and "This is a guess" in first
    recipe = load_recipe(tmp_path / "recommended.yaml", None, [])
    assert recipe.stages["model"].options.learning_rate == 0.01 and recipe.stages["model"].options.max_steps == 400
    again = hardneg("--depth", "20", "--train", "0", "--json", "--overwrite")
    answer = json.loads(again.stdout)
    assert answer["recipe"] == "recommended.yaml" and answer["trials"] is None
    miner = answer["miners"][answer["chosen"]]["miner"]
    assert {"name": recipe.stages["negatives"].miner.name, **recipe.stages["negatives"].miner.options} == miner
    assert again.stderr.count("in the store") == 4
    assert answer["goal"] is None and answer["facts"]["documents"] == 60 and answer["facts"]["batch"] == 32
    assert answer["in_batch_alone"]  # a batch of 32 from 60 documents reaches the top of every list
    with pytest.raises(RecipeError, match=r"split other has no queries; there are dev, test, train"):
        hardneg("--split", "other", "--output", "other.yaml")


@pytest.mark.slow
def test_a_reranker_is_a_second_judge_of_judged_positives(hardneg, model, tiny_reranker, tmp_path):
    qrels = tmp_path / "data" / "qrels" / "dev.tsv"
    others = "".join(f"q{i}\td{i + 1}\t1\n" for i in range(36, 46))
    qrels.write_text(qrels.read_text() + others)
    setting = "stages.sweep.analysis.miner-sweep.least_judged=5"
    given = [
        "--depth",
        "20",
        "--train",
        "0",
        "--reranker",
        f"cross-encoder:{tiny_reranker}",
        "--option",
        "length=32",
        "--set",
        setting,
    ]
    found = json.loads(hardneg(*given, "--json").stdout)
    assert found["planted"] == {"kind": "judged", "planted": 10, "queries": 10} and found["unused"] == []
    assert {row["by"] for row in found["miners"]} == {"", "reranked"}
    assert all(row["planted"] is not None for row in found["miners"] if row["miner"]["name"] == "topk")


def test_a_plan_is_shown_and_nothing_is_made(hardneg, model, tmp_path):
    told = hardneg("--depth", "20", "--train", "3", "--plan").stdout
    assert "to run: " in told and "first at 1e-05" in told and "in-batch at 0.0001" in told
    assert told.splitlines()[-1].endswith("--set model.document_length=128")
    assert not (tmp_path / "store").exists() or not list((tmp_path / "store").glob("*/manifest.json"))
    steps = json.loads(hardneg("--depth", "20", "--train", "0", "--plan", "--json").stdout)["steps"]
    assert [step["step"] for step in steps] == ["dataset", "index", "run", "sweep"]
    assert "less work" not in hardneg("--plan", "--train", "0", "--set", "model.document_length=64").stdout
    assert not list(tmp_path.glob("recommended.*"))


def test_mistakes_are_told_before_any_work(hardneg, tmp_path):
    with pytest.raises(UsageError, match=r"best.txt: is to be a recipe; give a name that ends in .yaml"):
        hardneg("--output", "best.txt")
    with pytest.raises(UsageError, match=r"--goal: 'rcall': no such goal; did you mean 'recall'\?"):
        hardneg("--goal", "rcall")
    with pytest.raises(UsageError, match=r"--depth: must be 10 or more \(got 5\), the least depth that is tried"):
        hardneg("--depth", "5")
    with pytest.raises(UsageError, match="depth: must be 10 or more"):
        hn.recommend("beir:nowhere", depth=5)
    with pytest.raises(RecipeError) as told:
        hardneg("--train-option", "learning_rat=1", "--set", "model.nam=x", "--reranker", "cross-encodr:model")
    assert all(part in str(told.value) for part in ("learning_rat", "model.nam", "'cross-encoder'"))
    assert not (tmp_path / "recommended.yaml").exists()
    with pytest.raises(UsageError, match="split test is what systems are measured on"):
        hn.recommend("beir:nowhere", split="test")


@pytest.mark.slow
def test_negatives_are_recommended(tmp_path, tiny_model):
    at = {"store": tmp_path / "store", "device": "cpu"}
    small_collection(tmp_path / "data")
    chosen = hn.recommend(tmp_path / "data", tiny_model, depth=20, train=0, **at)
    chosen.write(tmp_path / "chosen.yaml")
    plan = hn.load_recipe(tmp_path / "chosen.yaml").plan(store=at["store"])
    assert plan.plan.steps["negatives"].spec.miner.name == chosen.miner["name"]
    with pytest.raises(UsageError, match=r"chosen.yaml: is there already"):
        chosen.write(tmp_path / "chosen.yaml")
