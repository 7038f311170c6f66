"""The shipped line of RocketQA on a tiny collection: what its steps make of each other, whole and killed in each."""

import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import forked
import numpy as np
import pytest
from recipes.recipes import artifacts_of, small_collection, write_recipe

from hardneg.formats.negatives import drop_batches, read_negatives
from hardneg.formats.runs import stream_run
from hardneg.recipes import Options, Plan, Watcher, execute, expand, find_recipe, load_recipe, make_plan
from hardneg.records import DROPPED, NEGATIVES, RUN
from hardneg.store import Artifact, Store

pytestmark = pytest.mark.slow

DUAL = {"batch_size": 6, "chunk": 3, "max_steps": 4, "checkpoint_every": 2, "evaluate_every": 4, "precision": "fp32"}
JUDGE = {"batch_size": 6, "max_steps": 4, "learning_rate": 1e-3, "evaluate_every": 4, "precision": "fp32"}
KILLS = {"denoised-negatives": ("mining", 1), "pseudo-labels": ("labelling", 5)}
KILLS |= {"rocketqa-4": ("training", 3), "student": ("training", 2 + 3)}
"""In which step a process dies, and after how many blocks, queries or steps of what its progress is called.

The one that dies in the student's third step begins with the two steps that are left of the model before it.
"""
WEIGHTS = "model/model.safetensors"
TIMED = {"manifest.json", "history.jsonl"}
"""They tell how long things took."""


def tree_of(collection: Path, model: Path) -> dict[str, Any]:
    """The demo with tiny models and without BM25, and a student of the cross-encoder's scores behind it."""
    tree: dict[str, Any] = dict(expand(find_recipe("rocketqa-passage"), "demo", []).tree)
    stages = tree["stages"]
    for name in ("bm25-index", "bm25"):
        del stages[name]
    del stages["scores"]["runs"]["BM25"]
    stages["scores"]["baselines"] = ["as shipped"]
    for name in ("rocketqa-1", "rocketqa-3", "rocketqa-4"):
        stages[name]["options"] |= DUAL
    for name in ("cross-encoder-lists", "cross-encoder"):
        stages[name]["options"] |= JUDGE
        stages[name]["reranker"] = {"name": "cross-encoder", "source": str(model), "length": 32}
    loss = {"name": "margin-mse", "probabilities": True}
    options = {**DUAL, "negatives_per_query": 1}
    taught = {"stage": "train", "negatives": "found-negatives", "teacher": "train-scores", "loss": loss}
    stages["student"] = {**taught, "options": options}
    dataset = {"name": "beir", "source": str(collection), "withheld": {"unlabelled": 0.5}}
    model_of = {"name": str(model), "query_length": 16, "document_length": 24}
    return {**tree, "dataset": dataset, "model": model_of, "presets": {}}


def made_of(recipe: Path, until: str | None = None) -> tuple[Plan, dict[str, Artifact]]:
    plan = make_plan(load_recipe(recipe))
    return plan, dict(artifacts_of(plan, recipe.parent / "store", until=until))


@pytest.fixture(scope="module")
def line(
    tmp_path_factory: pytest.TempPathFactory, tiny_model: Path
) -> Iterator[tuple[Path, Plan, dict[str, Artifact]]]:
    """The recipe and what it made; its thresholds are quantiles of what the tiny cross-encoder says."""
    folder = tmp_path_factory.mktemp("rocketqa")
    tree = tree_of(small_collection(folder / "data"), tiny_model)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        scored = made_of(write_recipe(folder / "first.yaml", tree), "train-scores")[1]["train-scores"]
        scores = np.concatenate([ranked.scores for _, ranked in stream_run(scored.path / RUN)])
        below, above = np.quantile(scores, [0.4, 0.6]).tolist()
        tree["stages"]["denoised-negatives"]["miner"]["below"] = below
        tree["stages"]["pseudo-labels"] |= {"above": above, "below": below}
        recipe = write_recipe(folder / "rocketqa.yaml", tree)
        yield recipe, *made_of(recipe)


def test_all_four_steps(line: tuple[Path, Plan, dict[str, Artifact]]) -> None:
    _, plan, made = line
    assert set(made) == set(plan.steps) and set(plan.steps) >= {"cross-encoder", "report"}
    below = plan.steps["denoised-negatives"].plugins["miner"].below
    lists = stream_run(made["train-scores"].path / RUN)
    scores = {query_id: dict(zip(one.doc_ids, one.scores, strict=True)) for query_id, one in lists}
    dropped = 0
    for batch in drop_batches(made["denoised-negatives"].path / DROPPED):
        for row in batch.to_pylist():
            told = dict(zip(row["doc_ids"], row["reasons"], strict=True))
            listed = {doc_id for doc_id, score in scores[row["query_id"]].items() if score >= below}
            assert {doc_id for doc_id, reason in told.items() if reason == "score"} <= listed
            dropped += sum(reason == "score" for reason in told.values())
    facts = made["denoised-negatives"].facts
    assert facts["dropped as score"] == dropped > 0 and facts["queries"] == 21
    labels = read_negatives(made["pseudo-labels"].path / NEGATIVES)
    assert 0 < len(labels) == made["pseudo-labels"].facts["queries"] <= 15
    card = (made["rocketqa-4"].path / "model" / "README.md").read_text()
    assert f"{len(labels)} more queries from pseudo-labels" in card
    names = ("rocketqa-1", "rocketqa-3", "rocketqa-4", "student")
    weights = {(made[name].path / WEIGHTS).read_bytes() for name in names}
    assert len(weights) == 4
    measured = json.loads((made["scores"].path / "metrics.json").read_text())
    assert {"Step 1", "Step 1, cross-encoder", "Step 3", "Step 4"} <= set(measured["metrics"])


def test_killed_in_each_step_it_ends_alike(line: tuple[Path, Plan, dict[str, Artifact]], tmp_path: Path) -> None:
    """The store is the finished one without what the killed steps and those behind them made."""
    recipe, plan, made = line
    store = tmp_path / "store"
    again = {step.name for name in KILLS for step in plan.dependents(name)}
    gone = [plan.keys[name] for name in again]
    shutil.copytree(recipe.parent / "store", store, ignore=shutil.ignore_patterns(*gone, "*.partial"))
    program = [sys.executable, Path(__file__).parents[1] / "stages" / "killed.py", recipe, store]
    kills = [str(word) for kill in KILLS.values() for word in kill]
    places = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    run = forked.run([*program, *kills], env={**os.environ, **places}, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    told = [line.split() for line in run.stdout.splitlines()]
    assert told == [[str(-signal.SIGKILL), plan.keys[name]] for name in KILLS], run.stderr
    ended = execute(plan, Store(store), Options(device="cpu"), Watcher())
    assert "rocketqa-4" not in ended.ran and set(ended.ran) <= again
    for name in again - {"report", "behind"}:
        one, other = (Path(artifacts[name].path) for artifacts in (made, ended.artifacts))
        names = sorted(path.relative_to(one) for path in one.rglob("*") if path.is_file() and path.name not in TIMED)
        assert names
        assert not [path for path in names if (other / path).read_bytes() != (one / path).read_bytes()], name
    assert all("earlier seconds" in ended.artifacts[name].facts for name in ("rocketqa-4", "student"))
