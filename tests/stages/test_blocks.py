"""Stages that an engine makes block by block give the bytes that they give at once."""

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
from recipes.recipes import large_collection, plan_in, small_collection, small_part

import hardneg as hn
from hardneg.recipes import Options, Watcher, execute
from hardneg.runtime import Silent
from hardneg.stages import mine, rescore
from hardneg.store import MANIFEST, Store
from tests.tiny import tiny_static


@dataclass(frozen=True)
class Backwards:
    """Makes the last block first, each with the work opened anew, as a writer of its own."""

    version: ClassVar[int] = 1
    counts: ClassVar[dict[str, int]] = {}

    def make(self, context):
        first = context.spec.make(context)
        assert first.finished() == set()
        for number in reversed(range(len(first.sizes))):
            blocks = context.spec.make(replace(context, first=False))
            with Silent().task("", None, "") as task:
                ((made, content),) = blocks.make([number], task)
            assert made == number
            blocks.write(number, content)
        Backwards.counts[context.name] = len(first.sizes)
        assert first.finished() == set(range(len(first.sizes))) and sum(first.sizes) > 0
        return first.finish()


def tree(collection, model, miner):
    made = small_part(collection, model, "start-index", "start-train", "start-test")
    made["stages"]["ranked"] = {**made["stages"]["start-train"], "candidates": "start-train", "depth": 5}
    made["stages"]["mined"] = {"stage": "mine", "runs": {"dense": "start-train"}, "miner": miner}
    return made


def compared(plan, folder):
    """Both ways, and that they give the same files and tell the same of them."""
    made = [
        execute(plan, Store(folder / name), Options(device="cpu", **engine), Watcher()).artifacts
        for name, engine in (("local", {}), ("blocks", {"engine": Backwards()}))
    ]
    for name, own in made[0].items():
        other = made[1][name]
        assert own.files == other.files and set(own.files) - {MANIFEST}, name
        assert counts(own.facts) == counts(other.facts), name
    return made[1]


def counts(facts):
    return {name: value for name, value in facts.items() if "seconds" not in name and name not in ("usage", "choices")}


@pytest.fixture(autouse=True)
def forget():
    Backwards.counts.clear()


def test_small_blocks(tmp_path, tiny_model, tiny_reranker, monkeypatch):
    monkeypatch.setattr(mine, "_BLOCK", 5)
    monkeypatch.setattr(rescore, "_PAIRS", 12)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = tree(small_collection(tmp_path / "data"), tiny_model, {"name": "denoised", "below": 0.9, "depth": 8})
    plugin = {"name": "cross-encoder", "source": str(tiny_reranker), "length": 32}
    again = {"stage": "rerank", "plugin": plugin, "run": "start-train", "split": "train", "depth": 3}
    made["stages"] |= {"again": {**again, "positives": True, "precision": "fp32"}}
    made["stages"]["start-train"]["depth"] = 4
    found = compared(plan_in(tmp_path, made), tmp_path)
    ones = dict.fromkeys(("start-index", "start-train", "start-test", "ranked"), 1)
    assert Backwards.counts == {**ones, "mined": 8, "again": 9}
    assert found["mined"].facts["dropped as positive"] > 0 and "dropped.arrow" in found["mined"].files
    assert found["again"].facts["positives missing from the run"] > 0


def test_queries_of_a_file(tmp_path, tiny_model):
    (tmp_path / "own.tsv").write_text("a\tquick violin\nb\tslow river\n")
    made = tree(small_collection(tmp_path / "data"), tiny_model, "topk")
    searched = {"stage": "search", "index": "start-index", "queries": str(tmp_path / "own.tsv")}
    made["stages"] = {"start-index": made["stages"]["start-index"], "own": searched}
    found = compared(plan_in(tmp_path, made), tmp_path)
    assert sorted(found["own"].files) == ["queries.arrow", "run.trec.gz"]
    hn.encode(f"beir:{tmp_path}/data", str(tiny_model), store=tmp_path / "own", device="cpu", engine=Backwards())
    assert Backwards.counts == {"start-index": 1, "own": 1, "index": 1}


@pytest.mark.slow
def test_several_blocks_of_passages_and_windows_of_queries(tmp_path):
    made = tree(large_collection(tmp_path / "data"), tiny_static(tmp_path / "model"), "topk")
    compared(plan_in(tmp_path, made), tmp_path)
    assert Backwards.counts == {"start-index": 9, "start-train": 5, "start-test": 1, "ranked": 5, "mined": 5}
