"""Stage `rerank`."""

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
from recipes.recipes import artifacts_of, plan_in, small_collection, small_part

from hardneg.formats.runs import read_run
from hardneg.recipes import Options, Watcher, execute
from hardneg.records import PluginError, RecipeError
from hardneg.rerankers.cross_encoder import CrossEncoder
from hardneg.rerankers.network import PairScorer
from hardneg.runtime import Silent
from hardneg.store import Store
from tests.run_lists import doc_lists, score_lists
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
    assert artifacts["whole"].facts["positives that the run lacks"] == added > 0
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
    with pytest.raises(RecipeError, match="give either reranker, the name"):
        planned({"r": {"stage": "rerank", "run": "start-test"}})
    with pytest.raises(RecipeError, match="'start-test' makes run, but reranker is needed"):
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
    with pytest.raises(PluginError, match="the reranker gave 1 scores for the 20 documents of query q46"):
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
