"""The parts of the engine that need no cluster."""

import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from hardneg_ray import cluster, crew, travel
from hardneg_ray.cluster import Cluster, Needs
from hardneg_ray.crew import Crew, Lost, Member
from hardneg_ray.desk import Desk, choices_in
from hardneg_ray.engine import Ray
from hardneg_ray.foreman import Ranges
from hardneg_ray.travel import Traveller, manifests
from hardneg_ray.worker import Failed
from ray.exceptions import ObjectFetchTimedOutError, ObjectReconstructionFailedError, OwnerDiedError

from hardneg.records.errors import ArtifactError, DataError, PluginError, RecipeError
from hardneg.runtime.distributed import from_whoever_asks_first, settle_by
from hardneg.store.artifacts import Store
from hardneg.verbs.shared.context import ArtifactInput


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
    desk = Desk(tmp_path / "choices.json", [tmp_path])
    assert desk.chosen("precision") is None
    assert [desk.settle("precision", way) for way in ("bf16", "fp32")] == ["bf16", "bf16"]
    assert Desk(tmp_path / "choices.json", []).chosen("precision") == "bf16"
    assert choices_in(tmp_path / "choices.json") == {"precision": "bf16"} and choices_in(tmp_path / "none") == {}


def test_a_process_of_an_engine_asks_the_engine(monkeypatch):
    monkeypatch.setattr("hardneg.runtime.distributed._settling", [])
    assert from_whoever_asks_first("x", lambda: "own") == "own"
    settle_by(lambda name, make: f"{name} settled, not {make()}")
    assert from_whoever_asks_first("x", lambda: "own") == "x settled, not own"


def test_the_desk_gives_inputs_only(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "file").write_bytes(b"abcdef")
    (tmp_path / "secret").write_bytes(b"no")
    desk = Desk(tmp_path / "choices.json", [tmp_path / "in"])
    assert desk.files(tmp_path / "in") == [("file", 6)] and desk.read(tmp_path / "in" / "file", 2, 3) == b"cde"
    assert desk.size(tmp_path / "in" / "other") is None
    for path in (tmp_path / "secret", tmp_path / "in" / ".." / "secret"):
        with pytest.raises(PermissionError, match="none of the stage's inputs"):
            desk.read(path, 0, 2)


class Near:
    """A desk that is asked without Ray, of a machine whose `far` is called `elsewhere` here."""

    def __init__(self, desk: Desk, far: Path) -> None:
        self.desk, self.far = desk, far

    def __getattr__(self, name: str) -> SimpleNamespace:
        def remote(path: Path, *given: object) -> object:
            return getattr(self.desk, name)(self.far / path.relative_to(ELSEWHERE), *given)

        return SimpleNamespace(remote=remote)


ELSEWHERE = Path("/no/such/store")


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """The store of another machine with one artifact."""
    monkeypatch.setattr(travel.ray, "get", lambda value: value)
    monkeypatch.setattr(travel, "_CHUNK", 4)
    store = Store(tmp_path / "far")
    (store.workspace("key") / "sub").mkdir()
    (store.workspace("key") / "sub" / "rows").write_bytes(b"0123456789")
    store.commit("key", "index", {}, {})
    return store


def traveller(far: Store, own: Store) -> Traveller:
    far_inputs = {"index": ArtifactInput("index", "key", far.path("key")), "run": ArtifactInput("r", "", far.root)}
    given = manifests(far_inputs)
    return Traveller(Near(Desk(far.root / "choices.json", [far.root]), far.root), own, given)


def test_an_input_that_is_not_seen_comes_to_the_own_store(tmp_path, far):
    own, seen = Store(tmp_path / "own"), ArtifactInput("index", "key", far.path("key"))
    assert traveller(far, own).inputs({"index": seen}) == {"index": seen} and not own.root.exists()
    at_work = traveller(far, own)
    for _ in range(2):
        found = at_work.inputs({"index": ArtifactInput("index", "key", ELSEWHERE / "key")})["index"]
        assert found.folder == own.path("key") and (found.folder / "sub" / "rows").read_bytes() == b"0123456789"
        shutil.rmtree(far.path("key"), ignore_errors=True)  # the second time it is there
        assert own.find("key") is not None


def test_what_is_no_artifact_is_copied_aside(tmp_path, far):
    found = traveller(far, Store(tmp_path / "own")).inputs({"run": ArtifactInput("r", "", ELSEWHERE / "key" / "sub")})
    assert (found["run"].folder / "rows").read_bytes() == b"0123456789"
    assert not (tmp_path / "own").exists()


def test_bytes_that_change_on_the_way_are_told(tmp_path, far):
    rows, own = far.path("key") / "sub" / "rows", Store(tmp_path / "own")
    rows.chmod(0o644)
    rows.write_bytes(b"0123456780")
    with pytest.raises(ArtifactError, match="sub/rows: the bytes have changed on the way"):
        traveller(far, own).inputs({"index": ArtifactInput("index", "key", ELSEWHERE / "key")})
    assert own.find("key") is None


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
    with pytest.raises(ArtifactError, match="Run the same command to resume"):
        Cluster(options, False, "c").check()


@pytest.mark.parametrize(
    "given", [{"actors": 0}, {"num_cpus": -1.0}, {"losses": 0}, {"patience": 0.0}, {"object_store_memory": 5}]
)
def test_mistakes_are_told(given):
    with pytest.raises(PluginError, match=f"{next(iter(given))} must be"):
        Ray(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", [OwnerDiedError, ObjectReconstructionFailedError, ObjectFetchTimedOutError])
def test_a_block_that_is_lost_with_its_machine_is_given_out_again(kind, monkeypatch):
    def lost(waited: object) -> None:
        raise kind("ab" * 28, None, "")

    monkeypatch.setattr(crew.ray, "get", lost)
    member = Member(None, iter(["a block"]), numbers=[3], working=True)
    with pytest.raises(Lost) as gone:
        Crew(Cluster(Ray(), False, "a"), None, Needs(0, 1))._read(member)  # type: ignore[arg-type]
    assert gone.value.member.numbers == [3]
