"""Processes that die at any moment: nothing is lost, nothing half-written is read."""

import sys
from pathlib import Path

import forked
import pytest
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.recipes import Options, Watcher, execute, load_recipe, make_plan
from hardneg.store import MANIFEST, Store

TIMED = {"report.html", "report.md"}
"""They tell how long each step took."""


@pytest.fixture(scope="module")
def recipe(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("kills")
    return write_recipe(folder / "small.yaml", small_tree(small_collection(folder / "data"), tiny_model))


def files(folder: Path) -> dict[str, bytes]:
    found = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in found.items() if name not in TIMED}


@pytest.mark.slow
def test_death_at_many_writes_changes_nothing(recipe):
    folder = recipe.parent
    program = Path(__file__).with_name("kill_at_many_writes.py")
    arguments = [recipe, folder / "store", folder / "out", folder / "whole", "7"]
    done = forked.run([sys.executable, program, *arguments], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    code, died = done.stdout.split(" ", 1)
    assert code == "0", done.stderr
    assert int(died.split("'in a stage': ")[1].split(",")[0].rstrip("}\n")) > 10
    killed, whole = files(folder / "out"), files(folder / "whole" / "out")
    litter = {name for name in killed if name.endswith(".tmp")}
    assert {name: killed[name] for name in killed.keys() - litter} == whole


def test_an_artifact_is_finished_whose_maker_died_before_the_rename(tmp_path, monkeypatch):
    store, key = Store(tmp_path), "ab" * 16
    (store.workspace(key) / "data").write_text("x")
    monkeypatch.setattr(Store, "recover", lambda *_: None)
    store.commit(key, "run", {}, {})
    monkeypatch.undo()
    assert store.find(key) is None and (store.workspace(key) / MANIFEST).exists()
    store.recover(key)
    assert store.find(key).artifact_type == "run" and not list(tmp_path.glob("*.partial"))


def test_a_trained_model_that_is_all_there_is_not_trained_again(recipe, tmp_path, monkeypatch):
    store, plan = Store(tmp_path), make_plan(load_recipe(recipe))
    execute(plan, store, Options(until="static", device="cpu"), Watcher())

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("hardneg.store.artifacts.write_json", die)
        execute(plan, store, Options(until="star", device="cpu"), Watcher())
    monkeypatch.setattr("hardneg.training.loop.update", die)
    model = execute(plan, store, Options(until="star", device="cpu"), Watcher()).artifacts["star"].path
    assert sorted(path.name for path in model.iterdir()) == ["history.jsonl", MANIFEST, "model"]


@pytest.mark.parametrize("place", ["hardneg.store.artifacts.write_json", "pathlib.Path.chmod"])
def test_vectors_that_are_all_there_are_not_made_again(recipe, tmp_path, monkeypatch, place):
    store, plan = Store(tmp_path), make_plan(load_recipe(recipe))
    execute(plan, store, Options(until="dataset"), Watcher())
    options = Options(until="start-index", device="cpu")

    def die(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(place, die)
        execute(plan, store, options, Watcher())
    assert store.find(plan.steps["start-index"].key) is None
    monkeypatch.setattr("hardneg.encoders.stream.encoded_blocks", die)
    execute(plan, store, options, Watcher())
    assert store.find(plan.steps["start-index"].key) is not None
