"""Stages `rerank` and `fuse`."""

import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import forked
import pytest
from processes import codes, launch
from pydantic import ValidationError
from recipes.recipes import artifacts_of, plan_in, recipe_in, small_collection, small_part, stored_collection

from hardneg.evaluation.fusion import weighted_sum
from hardneg.formats.runs import read_run, stream_run, write_run
from hardneg.recipes import Options, Watcher, execute
from hardneg.records import PluginError, RecipeError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairScorer
from hardneg.runtime import Silent
from hardneg.stages import ArtifactInput, StageContext
from hardneg.stages.rescore import Fuse
from hardneg.store import Store
from tests.run_lists import doc_lists, falling, score_lists
from tests.stages import killed


@pytest.fixture
def planned(tmp_path, tiny_model, monkeypatch):
    """Plans stages over a search of the test queries; scores are kept in a folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    collection = small_collection(tmp_path / "data")

    def plan(stages):
        return plan_in(
            tmp_path, small_part(collection, tiny_model, "start-index", "start-test", "start-train", **stages)
        )

    return plan


@pytest.fixture
def made(tmp_path, planned):
    """The artifacts of some stages by name, made in a store of their own."""

    def make(stages):
        return artifacts_of(planned(stages), tmp_path / "store")

    return make


def run_of(artifact):
    return read_run(artifact.path / "run.trec.gz")


def rerank(model, **more):
    plugin = {"name": "cross-encoder", "source": str(model), "length": 32}
    return {"stage": "rerank", "plugin": plugin, "run": "start-test", "precision": "fp32", **more}


def test_the_top_is_scored_by_the_reranker(made, tiny_reranker):
    artifacts = made({"all": rerank(tiny_reranker, depth=20), "top": rerank(tiny_reranker, depth=3)})
    before, after, top = (run_of(artifacts[name]) for name in ("start-test", "all", "top"))
    assert list(after) == list(before) and len(list(after)) == 14
    assert [set(ids) for ids in doc_lists(after)] == [set(ids) for ids in doc_lists(before)]
    assert [set(ids) for ids in doc_lists(top)] == [set(ids[:3]) for ids in doc_lists(before)]
    assert doc_lists(after) != doc_lists(before)
    assert artifacts["top"].facts["pairs"] == 42
    texts = ["the old river was seen again near river"]
    (score,) = next(CrossEncoder(str(tiny_reranker), length=32).rerank([("old river", texts)]))
    assert 0 < score < 1 and all(((s > 0) & (s < 1)).all() for s in score_lists(after))


def test_positives_that_the_run_lacks_are_scored_too(made, tiny_reranker):
    plain = rerank(tiny_reranker, run="start-train", split="train", depth=2)
    artifacts = made({"plain": plain, "whole": {**plain, "positives": True}})
    plain, whole = run_of(artifacts["plain"]), run_of(artifacts["whole"])
    added = 0
    for query_id, ids, more in zip(list(plain), doc_lists(plain), doc_lists(whole), strict=True):
        assert set(more) == {*ids, f"d{query_id[1:]}"}
        added += len(more) - len(ids)
    assert artifacts["whole"].facts["positives missing from the run"] == added > 0
    assert artifacts["whole"].facts["pairs"] == 72 + added


def test_a_rerankers_content_is_in_the_key_and_its_place_is_not(planned, tiny_reranker, tmp_path):
    key = planned({"r": rerank(tiny_reranker)}).keys["r"]
    other = tmp_path / "elsewhere"
    other.symlink_to(tiny_reranker)
    assert planned({"r": rerank(other, tokens_per_batch=64)}).keys["r"] == key
    changed = rerank(tiny_reranker)
    changed["plugin"]["length"] = 33
    assert planned({"r": changed}).keys["r"] != key


def test_one_reranker_is_needed(planned, tiny_reranker):
    with pytest.raises(RecipeError, match="set either reranker"):
        planned({"r": {"stage": "rerank", "run": "start-test"}})
    with pytest.raises(RecipeError, match="'start-test' is of type run, expected reranker"):
        planned({"r": {"stage": "rerank", "run": "start-test", "reranker": "start-test"}})


IN_TWOS = 512
"""A depth by which a block is of two queries."""


class Seeing(Silent):
    """A progress display that knows what its last task began with."""

    @contextmanager
    def task(self, title, total, unit, done=0) -> Iterator["Seeing"]:
        self.seen = title, total, done
        yield self


@pytest.mark.slow
def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(planned, tiny_reranker, tmp_path, monkeypatch):
    plan = planned({"r": rerank(tiny_reranker, depth=IN_TWOS)})
    command = [sys.executable, killed.__file__, tmp_path / "r.yaml", tmp_path / "store", "reranking", "3"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])}
    assert forked.run(command, env=environment).returncode == -signal.SIGKILL
    parts = tmp_path / "store" / f"{plan.keys['r']}.partial" / "checkpoints"
    finished = len(list(parts.glob("blocks/*.npz")))
    assert finished in (2, 3)  # the third one may be on its way to the disk
    asked, scores = [], PairScorer._scores
    monkeypatch.setattr(
        PairScorer, "_scores", lambda self, tokens, advance: asked.append(1) or scores(self, tokens, advance)
    )
    progress = Seeing()
    made = artifacts_of(plan, tmp_path / "store", progress=progress)["r"]
    assert len(asked) == 7 - finished and progress.seen == ("reranking", 14, 2 * finished)
    whole = artifacts_of(plan, tmp_path / "whole")["r"]
    assert (made.path / "run.trec.gz").read_bytes() == (whole.path / "run.trec.gz").read_bytes()
    assert made.facts["queries"] == whole.facts["queries"] == 14 and made.facts["pairs"] == whole.facts["pairs"]
    assert sorted(path.name for path in made.path.iterdir()) == ["manifest.json", "run.trec.gz"]


def test_a_block_is_scored_while_the_next_is_tokenised(planned, tiny_reranker, tmp_path, monkeypatch):
    done, tokens, scores = [], PairScorer._tokens, PairScorer._scores
    ahead = threading.Event()

    def tokenised(self, window):
        done.append("tokens")
        if done.count("tokens") == 2:
            ahead.set()
        return tokens(self, window)

    def scored(self, *given):
        assert ahead.wait(60), "no second block is tokenised beside the first"
        done.append("scores")
        return scores(self, *given)

    monkeypatch.setattr(PairScorer, "_tokens", tokenised)
    monkeypatch.setattr(PairScorer, "_scores", scored)
    plan = planned({"r": rerank(tiny_reranker, depth=IN_TWOS)})
    execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher())
    assert (done.count("tokens"), done.count("scores")) == (7, 7)


def test_a_reranker_without_a_network_sees_each_query_once(planned, tiny_reranker, tmp_path, monkeypatch):
    plan = planned({"r": rerank(tiny_reranker, depth=IN_TWOS)})

    class Shortest:
        def rerank(self, requests):
            for _, documents in requests:
                yield [1 / (1 + len(text)) for text in documents]

    (name,) = plan.steps["r"].plugins
    plan.steps["r"].plugins[name] = Shortest()
    made = artifacts_of(plan, tmp_path / "store")
    before, after = run_of(made["start-test"]), run_of(made["r"])
    assert [set(ids) for ids in doc_lists(after)] == [set(ids) for ids in doc_lists(before)]
    monkeypatch.setattr(Shortest, "rerank", lambda self, requests: ([1.0] for _ in requests))
    with pytest.raises(PluginError, match="the reranker returned 1 scores for the 20 documents of query q46"):
        execute(plan, Store(tmp_path / "store"), Options(device="cpu", force=("r",)), Watcher())


def test_a_reranker_without_a_network_is_not_asked_again_after_a_stop(planned, tiny_reranker, tmp_path, monkeypatch):
    plan = planned({"r": rerank(tiny_reranker, depth=128)})  # two queries a block
    asked = []

    class Slow:
        def rerank(self, requests):
            for text, documents in requests:
                if len(asked) == 5:
                    raise KeyboardInterrupt
                asked.append(text)
                yield [1 / (1 + len(text)) for text in documents]

    (name,) = plan.steps["r"].plugins
    plan.steps["r"].plugins[name] = Slow()
    with pytest.raises(KeyboardInterrupt):
        execute(plan, Store(tmp_path / "store"), Options(device="cpu"), Watcher())
    asked.insert(0, "that it stopped")
    made = artifacts_of(plan, tmp_path / "store")["r"]
    assert len(asked) == 1 + 14 + 1 and len(set(asked)) == 1 + 14
    asked.append("no more stops")
    whole = artifacts_of(plan, tmp_path / "whole")["r"]
    assert (made.path / "run.trec.gz").read_bytes() == (whole.path / "run.trec.gz").read_bytes()
    assert sorted(path.name for path in made.path.iterdir()) == ["manifest.json", "run.trec.gz"]


@pytest.mark.slow
def test_two_processes_write_the_bytes_of_one(planned, tiny_reranker, tmp_path):
    plan = planned({"r": rerank(tiny_reranker, depth=IN_TWOS)})
    whole = artifacts_of(plan, tmp_path / "one")["r"]
    command = ["-m", "hardneg", "recipe", "run", tmp_path / "r.yaml", "--device", "cpu"]
    assert codes(launch([*command, "--store", tmp_path / "two", "--output", tmp_path / "out"], 2)) == [0, 0]
    found = Store(tmp_path / "two").find(plan.keys["r"])
    assert (found.path / "run.trec.gz").read_bytes() == (whole.path / "run.trec.gz").read_bytes()


def tree_of(collection, model):
    search = {"stage": "search", "index": "start-index", "split": "test"}
    runs = {"long": {**search, "depth": 20}, "short": {**search, "depth": 5}}
    both = {"stage": "fuse", "runs": {"long": "long", "short": "short"}, "weights": {"short": 2.5}, "depth": 15}
    ranks = {"stage": "fuse", "runs": {"a": "long", "b": "sum"}, "method": "reciprocal-rank"}
    return small_part(collection, model, "start-index", **runs, sum=both, ranks=ranks)


def lists_of(artifact):
    return {q: (ranked.doc_ids, ranked.scores.tolist()) for q, ranked in stream_run(artifact.path / "run.trec.gz")}


def test_a_sum_of_two_runs(tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    plan = plan_in(tmp_path, tree)
    artifacts = artifacts_of(plan, tmp_path / "store")
    long, short, made = (lists_of(artifacts[name]) for name in ("long", "short", "sum"))
    runs = [dict(stream_run(artifacts[n].path / "run.trec.gz")) for n in ("long", "short")]
    for query_id, (ids, scores) in made.items():
        expected = weighted_sum([run[query_id] for run in runs], [1.0, 2.5])
        assert ids == expected.doc_ids[:15] and scores == pytest.approx(expected.scores[:15].tolist(), rel=1e-5)
        assert ids[:5] == long[query_id][0][:5] == short[query_id][0]
    assert lists_of(artifacts["ranks"]).keys() == made.keys() == long.keys()
    assert artifacts["sum"].facts["queries"] == 14 and artifacts["sum"].artifact_type == "run"


def test_runs_to_tune_on_are_inputs(tmp_path, tiny_model):
    tree = tree_of(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["train"] = {**tree["stages"]["long"], "split": "train"}
    tree["stages"]["sum"]["tuning"] = {"runs": {"long": "train", "short": "train"}, "split": "train"}
    plan = plan_in(tmp_path, tree)
    inputs = plan.steps["sum"].inputs
    assert {path for path in inputs if path != "dataset"} == {
        "runs.long", "runs.short", "tuning.runs.long", "tuning.runs.short",
    }  # fmt: skip
    tree["stages"]["sum"]["tuning"]["runs"]["long"] = "start-index"
    with pytest.raises(RecipeError, match=r"tuning\.runs\.long: 'start-index' is of type index, expected run"):
        recipe_in(tmp_path, tree)


SPARSE = {"q46": ["d46", "d1"], "q47": ["d1", "d47"]}
DENSE = {"q46": ["d1", "d46"], "q47": ["d47", "d3", "d1"]}


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stored")
    stored_collection(folder)
    dev = write_dev(folder)
    for name, lists in {"sparse": SPARSE, "dense": DENSE, **dev}.items():
        (folder / name).mkdir()
        write_run(folder / name / "run.trec.gz", falling(lists).items())
    return folder


def write_dev(folder):
    """Two runs over training queries: the one that is right, and the one that is not."""
    from hardneg.formats.collection import StoredCollection

    qrels = StoredCollection.open(folder / "stored").qrels("train")
    right = {query_id: [*judged, "none"] for query_id, judged in qrels.items()}
    return {"right": right, "wrong": {query_id: ids[::-1] for query_id, ids in right.items()}}


def work_of(stored, folder, spec, **inputs):
    folder.mkdir(exist_ok=True)
    given = {path.replace("__", "."): ArtifactInput(name, "", stored / name) for path, name in inputs.items()}
    given["dataset"] = ArtifactInput("d", "", stored / "stored")
    return StageContext("made", spec, folder, given, {}, Silent())


def fused(stored, folder, runs=("dense", "sparse"), **values):
    spec = Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values})
    tuned = {"tuning__runs__x": "wrong", "tuning__runs__y": "right"} if "tuning" in values else {}
    facts = spec.make(work_of(stored, folder, spec, runs__x=runs[0], runs__y=runs[1], **tuned))
    return facts, {query_id: ranked.doc_ids for query_id, ranked in stream_run(folder / "run.trec.gz")}


def test_runs_are_zipped_the_first_one_first(stored, tmp_path):
    facts, lists = fused(stored, tmp_path, method="zip", depth=3)
    assert lists == {"q46": ["d1", "d46"], "q47": ["d47", "d1", "d3"]}
    assert facts["queries missing from x"] == facts["queries"] - 2


def test_weights_are_tuned_on_another_split(stored, tmp_path):
    tuning = {"runs": {"x": "a", "y": "b"}, "split": "train", "metric": "mrr@10", "grid": {"y": [0.5, 2.0]}}
    facts, lists = fused(stored, tmp_path, method="weighted-sum", tuning=tuning)
    assert facts["tuned"] == {"weights": {"x": 1.0, "y": 2.0}, "mrr@10": 1.0} and facts["tried"] == 2
    assert lists["q46"] == ["d46", "d1"]
    told = json.loads((tmp_path / "tuning.json").read_text())
    assert [each["weights"]["y"] for each in told["tried"]] == [2.0, 0.5] and told["split"] == "train"


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"method": "zip", "weights": {"x": 2}}, "weights: zip does not use weights"),
        ({"weights": {"xx": 2}}, r"weights: no run is called 'xx'; did you mean 'x'"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "split": "test"}}, "test is the split to fuse"),
        ({"tuning": {"runs": {"x": "a", "z": "b"}}}, r"must have the same labels as runs \(x, y\)"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "grid": {"z": [1]}}}, "weighted-sum has no 'z'"),
        ({"tuning": {"runs": {"x": "a", "y": "b"}, "metric": "ndgc@10"}}, "did you mean ndcg@10"),
    ],
)
def test_mistakes_are_told_before_anything_runs(values, told):
    with pytest.raises(ValidationError, match=told):
        Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values})


def test_what_counts_in_a_fusion():
    def identity(**values):
        return Fuse.model_validate({"stage": "fuse", "runs": {"x": "a", "y": "b"}, **values}).identity()

    assert not {"norm", "tuning", "order"} & identity().keys()
    assert identity(method="zip")["order"] == ["x", "y"] != identity(method="zip", runs={"y": "b", "x": "a"})["order"]
    assert identity() == identity(runs={"y": "b", "x": "a"})
    tuning = identity(tuning={"runs": {"x": "a", "y": "b"}})["tuning"]
    assert tuning["runs"] == ["x", "y"] and tuning["split"] == "dev"
