"""What can go wrong with disk, store and plugins: one line each, and a store that works afterwards."""

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import forked
import pytest
from recipes.recipes import small_collection, small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import Options, Outcome, Watcher, execute, load_recipe, make_plan
from hardneg.records import ArtifactError, HardnegError, NewerArtifact, PluginError
from hardneg.store import MANIFEST, Store

ALL = ("dataset", "start-index", "start-train", "static")
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}
MINER = """
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True)
class Furious:
    version: ClassVar[int] = 1

    def mine(self, candidates, *, seed):
        for item in candidates:
            raise ValueError("not\\nthis one")
            yield item
"""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("faults")
    tree = small_tree(small_collection(folder / "data"), tiny_model)
    return write_recipe(folder / "small.yaml", tree)


@pytest.fixture(scope="module")
def filled(recipe) -> Store:
    store = Store(recipe.parent / "filled")
    assert run(recipe, store).ran == ALL
    return store


@pytest.fixture
def store(filled, tmp_path) -> Store:
    """A store of its own with the steps up to the negatives."""
    shutil.copytree(filled.root, tmp_path / "store")
    return Store(tmp_path / "store")


def run(recipe: Path, store: Store, until: str = "static", settings: tuple[str, ...] = ()) -> Outcome:
    plan = make_plan(load_recipe(recipe, settings=settings))
    return execute(plan, store, Options(until=until, device="cpu"), Watcher())


def one_line(error: HardnegError) -> bool:
    return bool(str(error)) and "\n" not in str(error)


@pytest.mark.parametrize(
    "damage",
    [
        shutil.rmtree,
        lambda folder: ((folder / MANIFEST).chmod(0o644), (folder / MANIFEST).write_text("")),
        lambda folder: (folder / "docid").unlink(),
        lambda folder: (folder / MANIFEST).unlink(),
        lambda folder: [path.unlink() for path in folder.iterdir()],
    ],
)
def test_what_is_deleted_is_made_again_and_nothing_else(recipe, store, damage):
    index = store.root / make_plan(load_recipe(recipe)).steps["start-index"].key
    before = (index / "index").read_bytes()
    damage(index)
    assert run(recipe, store).ran == ("start-index",)
    assert (index / "index").read_bytes() == before
    assert run(recipe, store).ran == ()


def test_an_artifact_of_a_newer_hardneg_stays(recipe, store):
    manifest = store.root / make_plan(load_recipe(recipe)).steps["start-index"].key / MANIFEST
    content = json.dumps({**json.loads(manifest.read_text()), "format": 99})
    manifest.chmod(0o644)
    manifest.write_text(content)
    with pytest.raises(NewerArtifact, match="newer hardneg") as caught:
        run(recipe, store)
    assert one_line(caught.value) and manifest.read_text() == content


@pytest.mark.parametrize("way", ["limit", "tmpfs"])
@pytest.mark.slow
def test_a_disk_without_room_is_one_line_at_every_step(recipe, tmp_path, way):
    command = [sys.executable, str(Path(__file__).with_name("fill_the_disk.py")), str(recipe)]
    if way == "tmpfs":
        if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], check=False).returncode:
            pytest.skip("no file system can be mounted here: that takes root")
        command = ["unshare", "-m", *command]
    arguments = [str(tmp_path / "store"), str(tmp_path / "out"), way]
    start = forked.run if way == "limit" else subprocess.run
    done = start([*command, *arguments], capture_output=True, text=True, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr
    *failures, last = done.stdout.splitlines()
    assert last == "finished"
    assert {line.split("\t")[0] for line in failures} >= {"dataset", "star"}
    words = {"limit": "exceeds the size limit", "tmpfs": "the disk is full"}[way]
    assert all(len(line.split("\t")) == 2 and words in line for line in failures)


def test_a_store_that_may_not_be_written(recipe, store):
    for folder in (store.root, store.root / "locks"):
        folder.chmod(stat.S_IRUSR | stat.S_IXUSR | stat.S_IROTH | stat.S_IXOTH)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        with pytest.raises(ArtifactError, match="not allowed; choose another folder") as caught, store.lock("ab" * 16):
            pass
    finally:
        if root:
            os.seteuid(0)
    assert one_line(caught.value)
    for folder in (store.root, store.root / "locks"):
        folder.chmod(0o755)
    assert run(recipe, store).ran == ()


def test_a_read_only_disk(recipe, filled, tmp_path):
    """What is finished there is read; what is not cannot be made, and that is told."""
    mount = f"mount --bind {filled.root} {filled.root} && mount -o remount,bind,ro {filled.root}"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted read-only here: that takes root")
    command = f"{sys.executable} -m hardneg recipe run {recipe} --store {filled.root} --output {tmp_path} --device cpu"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", f"{mount} && {command}"], capture_output=True, text=True, env=ENVIRONMENT
    )
    assert done.returncode == 5
    assert (
        "start-index: in the store" in done.stderr
        and "read-only; choose another folder" in done.stderr.splitlines()[-1]
    )
    assert "Traceback" not in done.stderr


def test_a_read_only_store_serves_a_finished_recipe(recipe, filled, tmp_path, monkeypatch):
    def state():
        return {str(path): path.lstat().st_mtime_ns for path in (filled.root, *filled.root.rglob("*"))}

    monkeypatch.setattr("hardneg.store.artifacts.may_write", lambda folder: not folder.is_relative_to(filled.root))
    before = state()
    command = ["recipe", "run", str(recipe), "--until", "static", "--store", str(filled.root), "--device", "cpu"]
    for _ in range(2):
        done = CliRunner().invoke(app, [*command, "--output", str(tmp_path / "out")])
        assert done.exit_code == 0, done.output
        assert "0 of 4 steps ran" in done.stderr
    assert (tmp_path / "out" / "runs" / "start-train.trec.gz").exists() and state() == before


@pytest.mark.slow
def test_two_runs_at_once_make_each_step_once(recipe, tmp_path):
    command = [sys.executable, "-m", "hardneg", "recipe", "run", str(recipe), "--device", "cpu"]
    command += ["--store", str(tmp_path / "store"), "--output", str(tmp_path / "out")]
    both = [forked.Program(command, stderr=subprocess.PIPE, text=True, env=ENVIRONMENT) for _ in range(2)]
    told = [process.communicate()[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], told
    made = [int(text.split(" of 10 steps ran")[0].split()[-1]) for text in told]
    assert sum(made) == 10, made
    assert not list((tmp_path / "store").glob("*.partial")) and (tmp_path / "out" / "metrics.json").exists()


@pytest.mark.slow
def test_the_order_of_sets_changes_no_byte(recipe, filled, tmp_path):
    command = [sys.executable, "-m", "hardneg", "recipe", "run", recipe, "--device", "cpu", "--until", "static"]
    subprocess.run([*command, "--store", tmp_path / "other"], env={**ENVIRONMENT, "PYTHONHASHSEED": "1"}, check=True)
    plan = make_plan(load_recipe(recipe))
    for name in ALL:
        one, other = (store.find(plan.keys[name]) for store in (filled, Store(tmp_path / "other")))
        assert one.files == other.files != {}, name


def test_a_plugin_that_raises_is_one_line(recipe, store, tmp_path, monkeypatch):
    (tmp_path / "furious.py").write_text(MINER)
    info = tmp_path / "furious-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: furious\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[hardneg.miners]\nfurious = furious:Furious\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = r"plugin Furious failed \(.*furious.py:12: ValueError: not this"
    with pytest.raises(PluginError, match=told) as caught:
        run(recipe, store, settings=("stages.static.miner=furious",))
    assert one_line(caught.value)
    assert run(recipe, store).ran == ()
