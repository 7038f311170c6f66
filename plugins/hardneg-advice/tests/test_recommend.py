"""`hardneg recommend`: what it prints and writes, and that the recipe runs."""

import json

import pytest
from recipes.recipes import small_collection
from tiny import tiny_static
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.recipes import load_recipe
from hardneg.records import HardnegError, RecipeError, UsageError


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
def test_trainings_choose_and_a_recipe_is_written(hardneg, model, tmp_path):
    options = ("--train", "2", "--train-option", "batch_size=8")
    first = hardneg(*options, "--output", "best.yaml").stdout
    assert first.startswith(("Train with ", "Do not train: ")) and " on 10 queries" in first.splitlines()[0]
    assert all(row in first for row in ("the model as shipped", "in-batch negatives alone", "topk, 10 per", "BM25"))
    assert all(rate in first for rate in ("at 0.01", "at 0.03", "at 0.1"))
    assert "Without training runs, the advice would have been: in-batch negatives alone. " in first
    assert first.splitlines()[-1] == "best.yaml: written; to run it: hardneg recipe run best.yaml"
    recipe = load_recipe(tmp_path / "best.yaml", None, [])
    assert recipe.stages["model"].options.max_steps == 2 and recipe.stages["scores"].split == "test"
    ran = CliRunner().invoke(app, ["recipe", "run", "best.yaml", "--output", "made", "--device", "cpu"])
    assert ran.exit_code == 0 and all(name in ran.stdout for name in ("Hard Neg", "In-Batch Neg", "BM25", "as shipped"))
    out = hardneg(*options, "--train-option", "learning_rate=0.5", "--output", "rate.yaml").stdout
    assert "at 0.5" in out and "at 0.01" not in out


@pytest.mark.slow
def test_without_a_training_the_rule_guesses(hardneg, model, tmp_path):
    first = hardneg("--train", "0", "--train-option", "batch_size=2").stdout
    assert first.startswith("A guess without training runs: ") and "This is a guess" in first
    recipe = load_recipe(tmp_path / "recommended.yaml", None, [])
    assert recipe.stages["model"].options.learning_rate == 0.01 and recipe.stages["model"].options.max_steps == 400
    again = hardneg("--train", "0", "--json", "--overwrite")
    answer = json.loads(again.stdout)
    assert answer["recipe"] == "recommended.yaml" and answer["trials"] is None
    assert again.stderr.count("in the store") == 4
    assert answer["documents"] == 60 and answer["arm"] == "in-batch"  # a batch of 32 of 60 reaches the top of all lists
    with pytest.raises(HardnegError, match="other"):
        hardneg("--split", "other", "--output", "other.yaml")


def test_a_plan_is_shown_and_nothing_is_made(hardneg, model, tmp_path):
    told = hardneg("--train", "3", "--plan").stdout
    assert "to run: " in told and "first at 0.01" in told and "in-batch at 0.1" in told
    assert not (tmp_path / "store").exists() or not list((tmp_path / "store").glob("*/manifest.json"))
    steps = json.loads(hardneg("--train", "0", "--plan", "--json").stdout)["steps"]
    assert [step["step"] for step in steps] == ["dataset", "index", "run", "ranks"]
    assert not list(tmp_path.glob("recommended.*"))


def test_mistakes_are_told_before_any_work(hardneg, tmp_path):
    with pytest.raises(UsageError, match=r"best.txt: the name of a recipe must end in .yaml"):
        hardneg("--output", "best.txt")
    with pytest.raises(RecipeError) as told:
        hardneg("--train-option", "learning_rat=1", "--set", "model.nam=x")
    assert all(part in str(told.value) for part in ("learning_rat", "model.nam"))
    assert not (tmp_path / "recommended.yaml").exists()
    with pytest.raises(UsageError, match="split test is reserved for the final evaluation"):
        hn.recommend("beir:nowhere", split="test")
