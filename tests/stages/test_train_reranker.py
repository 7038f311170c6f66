"""Stages `train-reranker` and `rerank`, one after the other."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from recipes.recipes import plan_in, small_collection, small_tree
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder as Published

from hardneg.formats.corpus import Corpus
from hardneg.formats.runs import read_run
from hardneg.recipes import Options, Watcher, estimate, execute, publish
from hardneg.records import RecipeError, UsageError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.store import Store
from tests.run_lists import doc_lists, score_lists

OPTIONS = {"max_steps": 3, "batch_size": 6, "negatives_per_query": 2, "learning_rate": 1e-3, "precision": "fp32"}


@pytest.fixture
def planned(tmp_path, tiny_model, monkeypatch):
    """Plans a line from a search to a reranked run; `more` changes the stage that trains, `before` are others."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    collection = small_collection(tmp_path / "data")

    def plan(before=(), **more):
        tree = small_tree(collection, tiny_model)
        kept = {name: tree["stages"][name] for name in ("start-index", "start-test", "start-train", "static")}
        kept["start-dev"] = {**kept["start-test"], "split": "dev"}
        reranker = {"name": "cross-encoder", "source": str(tiny_model), "length": 32}
        trained = {"stage": "train-reranker", "reranker": reranker, "negatives": "static", "options": OPTIONS, **more}
        reranked = {"stage": "rerank", "reranker": "judge", "run": "start-test", "depth": 4, "precision": "fp32"}
        scores = {"stage": "evaluate", "runs": {"start": "start-test", "judge": "reranked"}, "metrics": ["mrr@4"]}
        report = {"stage": "report", "evaluation": "scores", "training": {"judge": "judge"}}
        own = {"judge": trained, "reranked": reranked, "scores": scores, "report": report}
        tree["stages"] = {**kept, **dict(before), **own}
        return plan_in(tmp_path, tree)

    return plan


def test_a_trained_reranker_reranks_and_opens_elsewhere(planned, tmp_path):
    plan, store = planned(validation_run="start-dev", validation={"depth": 5}), Store(tmp_path / "store")
    assert {row.step.verb for row in estimate(plan, store)} >= {"train-reranker", "rerank"}
    artifacts = execute(plan, store, Options(device="cpu"), Watcher()).artifacts
    judge, reranked = artifacts["judge"], artifacts["reranked"]
    assert judge.artifact_type == "reranker" and judge.facts["steps"] == 3 and judge.facts["best step"] == 3
    history = [json.loads(line) for line in (judge.path / "history.jsonl").read_text().splitlines()]
    assert [record["step"] for record in history] == [1, 2, 3, 3] and "dev" in history[-1]
    run = read_run(reranked.path / "run.trec.gz")
    corpus = Corpus.open(artifacts["dataset"].path)
    published = Published(str(judge.path / "model"), device="cpu", local_files_only=True)
    texts = corpus.contents(corpus.rows(doc_lists(run)[0]))
    expected = published.predict([(query_text(tmp_path, next(iter(run))), text) for text in texts])
    np.testing.assert_allclose(score_lists(run)[0], expected, atol=1e-6)
    card = (judge.path / "model" / "README.md").read_text()
    assert "2 per query from TopK" in card and "18 pairs" in card and str(tmp_path) not in card
    publish(plan, artifacts, store, tmp_path / "out")
    assert (tmp_path / "out" / "rerankers" / "judge" / "model.safetensors").exists()
    assert (tmp_path / "out" / "runs" / "reranked.trec.gz").exists()


def test_training_goes_on_from_the_weights_of_another_stage(planned, tmp_path, tiny_model):
    store = Store(tmp_path / "store")
    reranker = {"name": "cross-encoder", "source": str(tiny_model), "length": 32, "seed": 7}
    first = {"stage": "train-reranker", "reranker": reranker, "negatives": "static", "options": OPTIONS}
    nothing = {**OPTIONS, "max_steps": 1, "learning_rate": 1e-12, "weight_decay": 0.0}
    plan = planned({"first": first}, start="first", options=nothing)
    assert plan.keys["judge"] != planned({"first": first}, options=nothing).keys["judge"]
    made = execute(plan, store, Options("judge", device="cpu"), Watcher()).artifacts
    begun, ended = (load_file(made[name].path / "model" / "model.safetensors") for name in ("first", "judge"))
    assert all(torch.allclose(tensor, begun[name], atol=1e-9) for name, tensor in ended.items())
    assert "- Base model: first" in (made["judge"].path / "model" / "README.md").read_text()


def test_another_plugins_weights_are_refused(planned):
    assert planned(start=None).keys == planned().keys
    first = SimpleNamespace(name="first", plugins={"reranker": Path()})
    own, spec = CrossEncoder("any"), planned().steps["judge"].spec
    inputs = {"start": first, "negatives": None}
    work: Any = SimpleNamespace(name="judge", inputs=inputs, plugins={"reranker": own})
    told = r"judge\.start: first trained PosixPath, but this stage trains CrossEncoder; use"
    with pytest.raises(UsageError, match=told):
        spec.opened(work, None, None)


def query_text(folder, query_id):
    rows = map(json.loads, (folder / "data" / "queries.jsonl").read_text().splitlines())
    return next(row["text"] for row in rows if row["_id"] == query_id)


def test_what_is_no_part_of_the_result_is_no_part_of_the_key(planned):
    key = planned().keys["judge"]
    assert planned(options={**OPTIONS, "checkpoint_every": 1}).keys["judge"] == key
    assert planned(loss="bce").keys["judge"] == key
    others = [{"loss": "infonce"}, {"options": {**OPTIONS, "adversarial": 0.01}}, {"negatives": "static"}]
    assert [planned(**other).keys["judge"] == key for other in others] == [False, False, True]


def test_a_teachers_run_is_learnt_from(planned, tmp_path):
    """The teacher is the start model's run: the student comes nearer to its order, and the key and the card say so."""
    teacher = {"stage": "search", "index": "start-index", "split": "train", "depth": 60}
    before = {"teacher": teacher, "deeper": {**teacher, "depth": 59}}
    loss = {"name": "adr-mse", "labels": "teacher"}
    with pytest.raises(RecipeError, match=r"stages\.judge\.teacher: missing; adr-mse needs a run with scores"):
        planned(before, loss=loss)
    options = {**OPTIONS, "max_steps": 8}
    plan, store = planned(before, loss=loss, teacher="teacher", options=options), Store(tmp_path / "store")
    assert planned(before, loss=loss, teacher="deeper", options=options).keys["judge"] != plan.keys["judge"]
    judge = execute(plan, store, Options("judge", device="cpu"), Watcher()).artifacts["judge"]
    losses = [json.loads(line)["loss"] for line in (judge.path / "history.jsonl").read_text().splitlines()]
    assert len(losses) == 8 and np.mean(losses[-4:]) < np.mean(losses[:4])
    assert judge.facts["queries without a positive that the teacher scored"] == 0
    assert "Teacher: the scores of teacher" in (judge.path / "model" / "README.md").read_text()


def test_two_classes_need_two_outputs(planned, tmp_path, tiny_model, monkeypatch):
    store = Store(tmp_path / "store")
    told = r"stages\.judge\.loss: two-class needs 2 outputs, but the reranker has 1; set reranker.outputs: 2"
    with pytest.raises(RecipeError, match=told):
        planned(loss="two-class")
    monkeypatch.setattr(CrossEncoder, "head", None)  # as of a source that is not on this machine
    with pytest.raises(UsageError, match="judge: loss two-class needs 2 outputs, but the reranker has 1"):
        execute(planned(loss="two-class"), store, Options("judge", device="cpu"), Watcher())
    two = {"name": "cross-encoder", "source": str(tiny_model), "length": 32, "outputs": 2}
    plan = planned(loss="two-class", reranker=two)
    made = execute(plan, store, Options("reranked", device="cpu"), Watcher()).artifacts
    published = Published(str(made["judge"].path / "model"), device="cpu", local_files_only=True)
    assert published.num_labels == 2
