"""Readers in recipes: trained, reading, in the report; killed, and gone on from."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import forked
import pytest
from hardneg_reader.read import exact_match, f1
from recipes.questions import questions
from recipes.recipes import plan_in, recipe_in, small_collection, small_tree, write_recipe

from hardneg.formats.runs import stream_run
from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan, publish
from hardneg.records import RecipeError
from hardneg.store import Artifact, Store

OPTIONS = {"batch_size": 4, "negatives_per_query": 3, "max_steps": 8, "learning_rate": 2e-3, "precision": "fp32"}

KILLED = Path(__file__).parents[3] / "tests" / "stages" / "killed.py"
FILES = {
    "reader": ["model/model.safetensors", "model/selection.safetensors"],
    "read-train": ["answers.jsonl", "metrics.json"],
}


def tree_of(collection: Path, model: Path) -> dict[str, Any]:
    tree = small_tree(collection, model)
    searched = {"stage": "search", "index": "start-index", "depth": 10}
    read = {"stage": "read", "reader": "reader"}
    reader = {"stage": "train-reader", "reader": {"name": str(model), "length": 48, "answer_length": 2}}
    reader |= {"run": "start-train", "depth": 8, "validation_run": "start-dev", "validation": {"depth": 4}}
    runs = {"a": "start-test", "b": "start-test"}
    stages = {
        "start-index": {"stage": "encode", "precision": "fp32"},
        **{f"start-{split}": {**searched, "split": split} for split in ("train", "dev", "test")},
        "worst-test": {"stage": "fuse", "runs": runs, "weights": {"a": -2.0}, "depth": 10},
        "reader": {**reader, "options": {**OPTIONS, "checkpoint_every": 2, "evaluate_every": 4}},
        "read": {**read, "run": "start-test", "passages": [1, 5], "precision": "fp32"},
        "read-worst": {**read, "run": "worst-test", "passages": 5, "precision": "fp32"},
        "read-train": {**read, "run": "start-train", "split": "train", "passages": 3},
        "scores": {"stage": "evaluate", "runs": {"start": "start-test"}, "metrics": ["answer@5"]},
        "report": {"stage": "report", "evaluation": "scores", "reading": {"start": "read", "worst": "read-worst"}},
    }
    return {**tree, "stages": stages}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path) -> Path:
    folder = tmp_path_factory.mktemp("reading")
    return write_recipe(folder / "reading.yaml", tree_of(questions(folder / "data"), tiny_model))


@pytest.fixture(scope="module")
def made(recipe: Path) -> dict[str, Artifact]:
    plan, store = make_plan(load_recipe(recipe)), Store(recipe.parent / "store")
    artifacts = dict(execute(plan, store, Options(device="cpu"), Watcher()).artifacts)
    publish(plan, artifacts, store, recipe.parent / "out")
    return artifacts


def rows_of(artifact: Artifact) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (artifact.path / "answers.jsonl").read_text().splitlines()]


def known(recipe: Path) -> dict[str, list[str]]:
    rows = (json.loads(line) for line in (recipe.parent / "data" / "queries.jsonl").read_text().splitlines())
    return {row["_id"]: row["answers"] for row in rows}


def test_answers_are_measured_by_question(recipe: Path, made: dict[str, Artifact]) -> None:
    rows, answers = rows_of(made["read"]), known(recipe)
    measured = json.loads((made["read"].path / "metrics.json").read_text())
    assert list(measured["metrics"]["reader"]) == ["exact_match@1", "exact_match@5", "f1@1", "f1@5"]
    for count in ("1", "5"):
        read = {row["query_id"]: row["by_passages"][count] for row in rows}
        scores = measured["per_query"]["reader"]
        assert scores[f"exact_match@{count}"] == {q: exact_match(text, answers[q]) for q, text in read.items()}
        assert scores[f"f1@{count}"] == {q: f1(text, answers[q]) for q, text in read.items()}
    facts = made["read"].facts
    assert facts["questions"] == len(rows) == 14
    assert facts["f1@5"] == pytest.approx(measured["metrics"]["reader"]["f1@5"], abs=1e-6)


def test_an_answer_stands_where_it_says(recipe: Path, made: dict[str, Artifact]) -> None:
    corpus = [json.loads(line) for line in (recipe.parent / "data" / "corpus.jsonl").read_text().splitlines()]
    texts = {row["_id"]: row["text"] for row in corpus}
    lists = {query_id: ranked.doc_ids for query_id, ranked in stream_run(made["start-test"].path / "run.trec.gz")}
    for row in rows_of(made["read"]):
        assert texts[row["doc_id"]][row["begin"] : row["end"]] == row["answer"] == row["by_passages"]["5"]
        assert row["doc_id"] in lists[row["query_id"]][:5] and row["span"] <= 0
        assert row["by_passages"]["1"] in texts[lists[row["query_id"]][0]]
    assert [row["query_id"] for row in rows_of(made["read"])] == list(lists)


def test_the_reader_learns_and_is_judged_meanwhile(made: dict[str, Artifact]) -> None:
    history = [json.loads(line) for line in (made["reader"].path / "history.jsonl").read_text().splitlines()]
    losses = [row["loss"] for row in history if "loss" in row]
    assert len(losses) == 8 and sum(losses[-2:]) < sum(losses[:2])
    assert [row["step"] for row in history if "dev" in row] == [4, 8]
    assert set(history[-1]["dev"]) == {"exact_match", "f1"}
    assert made["reader"].artifact_type == "reader" and made["reader"].facts["steps"] == 8
    assert "best dev exact_match" in made["reader"].facts


def test_the_report_has_a_table_of_what_was_read(recipe: Path, made: dict[str, Artifact]) -> None:
    report = (made["report"].path / "report.md").read_text()
    lines = report[report.index("Reading") :].splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.count("|") == 9][2:]
    assert [row[:2] for row in cells] == [["start", "1"], ["start", "5"], ["worst", "5"]]
    assert cells[-2][2] == f"{made['read'].facts['exact_match@5']:.4f}" and cells[-2][5] == "–"
    assert cells[-1][5][0] in "+−"
    assert "Reading" in (made["report"].path / "report.html").read_text()
    out = recipe.parent / "out"
    assert (out / "readers" / "reader" / "reader.json").exists()
    assert (out / "answers" / "read.jsonl").exists() and (out / "answers" / "read-metrics.json").exists()


@pytest.mark.slow
def test_a_killed_recipe_ends_alike(recipe: Path, made: dict[str, Artifact]) -> None:
    """Killed at the fifth step of eight, after a checkpoint, and in the third reading, after 32 of 36 questions."""
    store = recipe.parent / "killed"
    for title, count in (("training", 5), ("reading", 3)):
        program = [sys.executable, str(KILLED), str(recipe), str(store), title, str(count)]
        run = forked.run(program, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
        assert run.returncode == -signal.SIGKILL, run.stderr
        assert list(store.glob("*.partial/checkpoints/step-*")) or title == "reading"
    [left] = store.glob("*.partial/answers.jsonl")
    assert left.read_text().count("\n") == 32
    with left.open("a") as file:
        file.write('{"query_id": "q')  # what a kill in the middle of a line leaves
    ended = execute(make_plan(load_recipe(recipe)), Store(store), Options(device="cpu"), Watcher())
    assert "reader" not in ended.ran and "read-train" in ended.ran
    for name, files in FILES.items():
        for file in files:
            assert (ended.artifacts[name].path / file).read_bytes() == (made[name].path / file).read_bytes(), file
    assert "earlier seconds" in ended.artifacts["reader"].facts


def test_without_answers_nothing_begins(tmp_path: Path, tiny_model: Path) -> None:
    plan = plan_in(tmp_path, tree_of(small_collection(tmp_path / "data"), tiny_model))
    with pytest.raises(RecipeError) as raised:
        execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher())
    asked = [f"stages.reader.{field} has no answers" for field in ("split: train", "validation.split: dev")]
    told = " ".join(raised.value.problems)
    assert all(line in told for line in [*asked, "stages.read.split: test has no answers"])


def test_what_counts_is_in_the_keys(recipe: Path, tmp_path: Path) -> None:
    def keys(*settings: str) -> dict[str, str]:
        return dict(make_plan(load_recipe(recipe, settings=settings)).keys)

    plain = keys()
    assert keys("stages.read.tokens_per_batch=64") == plain == keys("stages.reader.options.checkpoint_every=3")
    for setting in ("reader.length=40", "depth=7", "options.seed=3", "options.batch_size=2"):
        assert keys(f"stages.reader.{setting}")["reader"] != plain["reader"]
    assert keys("stages.read.passages=5")["read"] != plain["read"]
    assert {name for name, key in keys("stages.read.passages=5").items() if key != plain[name]} == {"read", "report"}
    with pytest.raises(RecipeError, match=r"stages.reader.reader.lenght: no such option; did you mean 'length'\?"):
        keys("stages.reader.reader.lenght=40")
    with pytest.raises(RecipeError, match="answer_length is 0"):
        keys("stages.reader.reader.answer_length=0")


READER = {"stage": "train-reader", "reader": "somebody/bert-base", "run": "start-train"}


def tree_with(tmp_path: Path, model: Path, **stages: Any) -> dict[str, Any]:
    tree = small_tree(small_collection(tmp_path / "data"), model)
    return {**tree, "stages": {**tree["stages"], "reader": READER, **stages}}


SEARCH = {"stage": "search", "index": "start-index", "split": "test", "depth": 5}


def test_runs_with_positives_that_were_not_found_are_not_read(tmp_path: Path, tiny_model: Path) -> None:
    added, again = {**SEARCH, "positives": True}, {**SEARCH, "candidates": "added"}
    asked = {"read": {"stage": "read", "reader": "reader", "run": "again"}}
    tree = tree_with(tmp_path, tiny_model, added=added, again=again, **asked)
    with pytest.raises(RecipeError) as caught:
        recipe_in(tmp_path, tree)
    told = "'again' comes from 'added', which has added positives; use a run without `positives`"
    assert f"stages.read.run: {told}" in str(caught.value)


def test_planning_loads_no_network_library() -> None:
    program = (
        "import sys, json, hardneg_reader.train_reader, hardneg_reader.read;"
        "print(json.dumps([each for each in ('torch', 'transformers', 'faiss', 'pyserini') if each in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
