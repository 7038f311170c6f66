"""Tests of the engine's parts without a cluster, and its contract tests."""

import subprocess
import sys

import pytest
from hardneg_ray import cluster, foreman, worker
from hardneg_ray.cluster import Cluster, Needs
from hardneg_ray.engine import Ray
from hardneg_ray.foreman import Lost, Member, Ranges
from hardneg_ray.testing import EngineTests, context_of
from hardneg_ray.worker import BlockActor, Desk, Failed, choices_in
from ray.exceptions import ObjectFetchTimedOutError, ObjectReconstructionFailedError, OwnerDiedError

from hardneg.records import ArtifactError, DataError, PluginError, RecipeError
from hardneg.runtime import from_whoever_asks_first, settle_by


def test_the_engine_is_imported_without_ray():
    program = "import sys, hardneg_ray.engine; print({'ray', 'torch', 'numpy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout == "set()\n"


def test_ranges_follow_each_other_and_grow_smaller():
    ranges = Ranges({9, *range(8), 20})
    assert [list(ranges.take(2)) for _ in range(4)] == [[0, 1], [2, 3], [4], [5]]
    assert ranges.give_back([2, 3]) == 1 and len(ranges) == 6
    assert list(ranges.take(1)) == [2, 3] and ranges.give_back([2, 3]) == 2  # 2, 3, 6, 7, 9, 20: at most three
    assert [list(ranges.take(1)) for _ in range(5)] == [[2, 3], [6, 7], [9], [20], []]
    assert len(Ranges(range(1000)).take(1)) == 16


def test_errors_come_back_as_they_were():
    for error in (DataError("corpus.jsonl:3: not JSON"), RecipeError("r.yaml", ["a", "b"])):
        again = Failed.of(error).error()
        assert type(again) is type(error) and str(again) == str(error)
    strange = Failed.of(ZeroDivisionError("by zero")).error()
    assert type(strange) is RuntimeError and "ZeroDivisionError: by zero" in str(strange)


def test_the_first_proposal_holds_for_all_and_is_kept(tmp_path):
    desk = Desk(tmp_path / "choices.json")
    assert desk.chosen("precision") is None
    assert [desk.settle("precision", way) for way in ("bf16", "fp32")] == ["bf16", "bf16"]
    assert Desk(tmp_path / "choices.json").chosen("precision") == "bf16"
    assert choices_in(tmp_path / "choices.json") == {"precision": "bf16"} and choices_in(tmp_path / "none") == {}


def test_a_process_of_an_engine_asks_the_engine(monkeypatch):
    monkeypatch.setattr("hardneg.runtime.distributed._settling", [])
    assert from_whoever_asks_first("x", lambda: "own") == "own"
    settle_by(lambda name, make: f"{name} settled, not {make()}")
    assert from_whoever_asks_first("x", lambda: "own") == "x settled, not own"


def test_a_machine_that_does_not_see_the_store_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(worker, "_PATIENCE", 0.0)
    monkeypatch.setattr("hardneg.runtime.settle_by", lambda settle: None)
    report = BlockActor(context_of(tmp_path / "work"), "a token", None).open()
    assert isinstance(report, Failed) and report.class_name == "UsageError"
    assert f"cannot see {tmp_path / 'work'}; put the store at a path that all machines share" in report.text


NODES = [
    {"Alive": True, "NodeID": "a", "Resources": {"CPU": 16.0, "GPU": 4.0}},
    {"Alive": True, "NodeID": "b", "Resources": {"CPU": 8.0}},
    {"Alive": False, "NodeID": "c", "Resources": {"CPU": 64.0, "GPU": 8.0}},
]


@pytest.mark.parametrize(
    ("options", "device", "needs", "room"),
    [
        (Ray(), None, Needs(1.0, 4.0), 4),
        (Ray(), "cpu", Needs(0.0, 8.0), 3),
        (Ray(actors=6), "cpu", Needs(0.0, 4.0), 6),
        (Ray(actors=100), "cpu", Needs(0.0, 0.24), 99),
        (Ray(num_gpus=0.5), None, Needs(0.5, 2.0), 8),
        (Ray(num_gpus=0, num_cpus=5), None, Needs(0.0, 5.0), 4),
    ],
)
def test_what_an_actor_takes(options, device, needs, room, monkeypatch):
    monkeypatch.setattr(cluster.ray, "nodes", lambda: NODES)
    joined = Cluster(options, False, "a")
    assert joined.needs(device) == needs and joined.room(needs) == room
    joined.check()
    with pytest.raises(ArtifactError, match="run the same command to resume"):
        Cluster(options, False, "c").check()


@pytest.mark.parametrize(
    "given", [{"actors": 0}, {"num_cpus": -1.0}, {"losses": 0}, {"patience": -1.0}, {"object_store_memory": 5}]
)
def test_mistakes_are_told(given):
    with pytest.raises(PluginError, match=f"{next(iter(given))} is "):
        Ray(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [OwnerDiedError, ObjectReconstructionFailedError, ObjectFetchTimedOutError])
def test_a_block_that_is_lost_with_its_machine_is_given_out_again(kind, monkeypatch):
    def lost(waited: object) -> None:
        raise kind("ab" * 28, None, "")

    monkeypatch.setattr(foreman.ray, "get", lost)
    member = Member(None, iter(["a block"]), numbers=[3], working=True)
    with pytest.raises(Lost) as gone:
        member.read()
    assert gone.value.member.numbers == [3]


pytestmark = pytest.mark.slow  # its processes import torch


@pytest.mark.usefixtures("cluster")
class TestRay(EngineTests):
    plugin = Ray(actors=2, num_cpus=1, losses=2)
