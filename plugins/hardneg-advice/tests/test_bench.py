"""`hardneg bench`: what it refuses before any work, its recipe, and that the same file gives the same figures."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hardneg_advice.bench import Protocol
from recipes.recipes import small_collection
from tiny import tiny_static
from typer.testing import CliRunner

import hardneg as hn
from hardneg.cli.main import app
from hardneg.functions.session import AdhocRecipe
from hardneg.recipes import load_recipe
from hardneg.records import HardnegError

QUICK = {"options": {"max_steps": 3, "batch_size": 8}, "seeds": 2, "rates": [0.1, 0.01], "device": "cpu"}


def triplets(path: Path, collection: Path, shift: int) -> Path:
    """A negative of each of the first 30 training queries: the document of another one."""
    rows, names = [], ("anchor", "positive", "negative")
    queries, corpus = ([json.loads(line)["text"] for line in (collection / name).open()] for name in FILES)
    for number in range(30):
        texts = (queries[number], corpus[number], corpus[(number + shift) % 60])
        rows.append(json.dumps(dict(zip(names, texts, strict=True))) + "\n")
    path.write_text("".join(rows))
    return path


FILES = ("queries.jsonl", "corpus.jsonl")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    triplets(tmp_path / "near.jsonl", small_collection(tmp_path / "data"), 6)
    return tmp_path


def problem(*arguments: str) -> str:
    given = ["bench", *arguments, "--dataset", "beir:data", "--model", "model", "--store", "store"]
    error = CliRunner().invoke(app, [*given, "--output", "judged"]).exception
    assert isinstance(error, HardnegError)
    return str(error)


def test_mistakes_are_told_in_a_line_before_any_work(folder: Path) -> None:
    (folder / "in-batch").mkdir()
    shutil.copy("near.jsonl", "in-batch/near.jsonl")
    (folder / "elsewhere.jsonl").write_text('{"anchor": "who", "positive": "a", "negative": "b"}\n')
    assert problem("lost.jsonl", "--form", "triplet") == "NEGATIVES: no such file: lost.jsonl"
    assert "--form: near.jsonl: the name must end in .arrow for form hardneg" in problem("near.jsonl")
    assert "--form: unknown form 'pairs'; available: triplet" in problem("near.jsonl", "--form", "pairs")
    told = problem("near.jsonl", "--form", "triplet", "--train-option", "learning_rat=0.1")
    assert told.count("--train-option.learning_rat: no such option; did you mean 'learning_rate'?") == 1
    told = problem("near.jsonl", "--form", "triplet", "--train-option", "learning_rate=0.1")
    assert told == "bench: omit learning_rate, which is chosen from --rate for each row"
    assert problem("near.jsonl", "--form", "triplet", "--rate", "0").startswith("--rate: learning rates must be")
    with pytest.raises(HardnegError, match="negatives: 'random' is the name of a baseline; use another name"):
        hn.bench({"random": "near.jsonl"}, "beir:data", form="triplet", model="model", store="store")
    with pytest.raises(HardnegError, match=r"^seeds: must be at least 2 for the tests"):
        hn.bench("near.jsonl", "beir:data", form="triplet", seeds=1, store="store")
    assert not (folder / "store").exists()
    tiny_static(folder / "model")
    told = problem("elsewhere.jsonl", "--form", "triplet")
    assert (
        told == "elsewhere.jsonl: no query of the file is in split train; "
        "use the split and dataset that it was mined from"
    )
    assert not (folder / "judged").exists()


def test_each_arm_has_its_rate_and_tuning_sees_dev_queries_alone(folder: Path) -> None:
    tiny_static(folder / "model")
    files = {"near": Path("near.jsonl")}
    options = {"max_steps": 3, "batch_size": 8, "self_mask": 0.1}
    made_in = AdhocRecipe("bench", "beir:data", {}, "model")
    protocol = Protocol(files, "triplet", options, 3, made_in, rates={"near": 0.5})
    plan = protocol.filled.plan()
    assert {name for name in plan.steps if name.startswith("file-1-seed")} == {f"file-1-seed-{n}" for n in (1, 2, 3)}
    assert all(step.spec.self_mask == 0.1 for step in plan.steps.values() if step.verb == "train")
    rates = {name: plan.steps[f"{name}-seed-1"].spec.options.learning_rate for name in ("file-1", "random")}
    assert rates == {"file-1": 0.5, "random": 0.03}
    tuned = replace(protocol, rates=dict.fromkeys(protocol.stages, 0.5), tuning=True).filled.plan()
    splits = {step.spec.split for step in tuned.steps.values() if step.verb in ("search", "evaluate")}
    assert splits == {"dev", "train"}
    assert tuned.steps["scores"].spec.split == "dev"
    [once] = [name for name, step in tuned.steps.items() if name.startswith("file-1") and step.verb == "train"]
    assert tuned.keys[once] == plan.keys["file-1-seed-1"], "the best of the tuning is the first seed"


@pytest.mark.slow
def test_the_same_file_gives_the_same_figures_from_the_store_and_in_a_fresh_one(folder: Path) -> None:
    tiny_static(folder / "model")
    triplets(folder / "far.jsonl", folder / "data", 25)
    given = ["near.jsonl", "far.jsonl", "--form", "triplet", "--dataset", "beir:data", "--model", "model"]
    given += ["--train-option=max_steps=3", "--train-option=batch_size=8", "--seeds", "2", "--device", "cpu"]
    given += ["--rate", "0.1", "--rate", "0.01"]
    texts, told = {}, ""
    for output, store in {"first": "store", "again": "store", "fresh": "another"}.items():
        done = CliRunner().invoke(app, ["bench", *given, "--store", store, "--output", output])
        assert done.exit_code == 0, done.output
        texts[output] = {
            name: (folder / output / name).read_text() for name in ("bench.json", "bench.md", "metrics.json")
        }
        told = done.output if output == "again" else told
    assert texts["first"] == texts["again"] == texts["fresh"]
    assert "in the store" in told and "train the model" not in told
    assert yaml.safe_load((folder / "first" / "recipe.yaml").read_text())["seeds"] == [1, 2]
    assert load_recipe(folder / "first" / "recipe.yaml").stages["file-2-negatives"].file == "far.jsonl"
    judged = hn.bench(["near.jsonl", "far.jsonl"], "beir:data", form="triplet", model="model", store="store", **QUICK)
    assert judged.to_dict() == json.loads(texts["first"]["bench.json"])
    near, far = judged.rows
    assert [near["negatives"], far["negatives"]] == ["near.jsonl", "far.jsonl"]
    assert near["file"]["queries"] == 30 and near["file"]["labelled"] == 0
    assert near["file"]["elsewhere"] == {"dev": 0, "test": 0}  # d6 to d35 are those of training queries
    assert far["file"]["elsewhere"] == {"dev": 10, "test": 9}  # d25 to d54, of which d36 to d45 and d46 to d54
    assert near["trained_with"]["queries with random negatives"] == 6
    assert {**near["effect"]["random"]["mrr@10"]}["difference"] == pytest.approx(
        near["metrics"]["mrr@10"] - judged.to_dict()["baselines"]["random"]["metrics"]["mrr@10"]
    )
    best = max(near["on_dev"].values())
    assert near["learning_rate"] == min(float(rate) for rate, mean in near["on_dev"].items() if mean == best)
