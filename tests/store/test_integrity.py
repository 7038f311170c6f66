"""Bytes that changed without a size changing."""

import json
from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import small_collection, small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import Options, Outcome, Watcher, execute, load_recipe, make_plan
from hardneg.records import ArtifactError
from hardneg.runtime import Silent
from hardneg.store import MANIFEST, Artifact, Store, check, damage, digest
from hardneg.store.outputs import publish


def make(store: Store, name: str = "bm25") -> Artifact:
    origin = {"stage": "search", "options": name}
    key = digest(origin)
    (store.workspace(key) / "sub").mkdir()
    (store.workspace(key) / "sub" / "data").write_text("hello")
    return store.commit(key, "run", {}, {**origin, "name": name})


def change(path: Path, text: str) -> None:
    path.chmod(0o644)
    path.write_text(text)


def manifest(artifact: Artifact, **more: Any) -> None:
    path = artifact.path / MANIFEST
    content = {**json.loads(path.read_text()), **more}
    change(path, json.dumps({name: value for name, value in content.items() if value is not None}))


def found(store: Store) -> dict[str, Any]:
    return {item.key: item for item in check(store, Silent())}


@pytest.mark.parametrize(
    ("harm", "problem"),
    [
        (lambda made: change(made.path / "sub" / "data", "hellO"), "damaged: the bytes of sub/data have changed"),
        (lambda made: change(made.path / "sub" / "data", "hell"), "sub/data has 4 bytes, but its manifest says 5"),
        (lambda made: (made.path / "sub" / "data").unlink(), "sub/data is missing"),
        (lambda made: (made.path / MANIFEST).unlink(), "manifest.json is missing"),
        (lambda made: manifest(made, origin={"stage": "search", "name": "x"}), "its manifest has changed"),
    ],
)
def test_damage_is_found_and_removed(tmp_path: Path, harm: Any, problem: str) -> None:
    store = Store(tmp_path / "store")
    artifact, other = make(store), make(store, "dense")
    (tmp_path / "out").mkdir()
    with publish(store, "search", tmp_path / "out", [artifact.key], []):
        pass
    harm(artifact)
    assert problem in found(store)[artifact.key].problem and not found(store)[other.key].problem
    told = CliRunner().invoke(app, ["artifacts", "check", "--store", str(store.root)])
    assert told.exit_code == 5 and problem in told.stdout and "1 damaged, removable with --repair" in told.stdout
    told = CliRunner().invoke(app, ["artifacts", "check", "--repair", "--store", str(store.root)])
    assert told.exit_code == 0 and "the next run recreates it" in told.stdout and str(tmp_path / "out") in told.stdout
    assert store.find(artifact.key) is None and store.find(other.key)
    told = CliRunner().invoke(app, ["artifacts", "check", "--store", str(store.root)])
    assert told.exit_code == 0 and told.stdout.endswith("none damaged\n")


def test_artifacts_of_other_versions(tmp_path: Path) -> None:
    store = Store(tmp_path)
    earlier, newer = make(store), make(store, "dense")
    manifest(earlier, digests=None)
    manifest(newer, format=99)
    assert found(store)[earlier.key].size_only and found(store)[newer.key].newer
    told = CliRunner().invoke(app, ["artifacts", "check", "--repair", "--store", str(tmp_path)])
    assert told.exit_code == 0 and "1 from an earlier version" in told.stdout and "1 from a newer" in told.stdout
    assert newer.path.exists() and not damage(earlier.path)


@pytest.mark.parametrize("command", [["list"], ["gc", "--delete"], ["check", "--repair"]])
def test_a_folder_that_is_no_store_is_left_alone(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "photos" / "2024").mkdir(parents=True)
    (tmp_path / ("0" * 32)).mkdir()  # of another program, which numbers its folders
    (tmp_path / ".ssh").mkdir()
    told = CliRunner().invoke(app, ["artifacts", *command, "--store", str(tmp_path)])
    assert f"{tmp_path}: not a store (it contains .ssh, {'0' * 32}, photos); choose one with --" in str(told.exception)
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ssh", "0" * 32, "photos"]


@pytest.mark.parametrize("command", [["gc", "--delete"], ["check", "--repair"]])
def test_what_stands_beside_artifacts_is_left_alone(tmp_path: Path, command: list[str]) -> None:
    names = {"photos", "a.partial", f"{'0' * 32}.bak", "roots.d", "0" * 32, f"{'1' * 32}.partial"}
    for name in names:
        (tmp_path / name).mkdir()
    (tmp_path / ("2" * 32)).symlink_to(tmp_path / "photos")
    artifact = make(Store(tmp_path))
    (artifact.path / MANIFEST).unlink()
    told = CliRunner().invoke(app, ["artifacts", *command, "--store", str(tmp_path)])
    assert told.exit_code == 0 and not artifact.path.exists()
    assert {path.name for path in tmp_path.iterdir()} == {*names, "2" * 32, "locks"}


def test_a_stage_that_fails_on_a_damaged_input_says_what_to_do(tmp_path: Path, tiny_model: Path) -> None:
    store = Store(tmp_path / "store")
    path = write_recipe(tmp_path / "small.yaml", small_tree(small_collection(tmp_path / "data"), tiny_model))

    def run() -> Outcome:
        plan = make_plan(load_recipe(path))
        return execute(plan, store, Options(until="static", device="cpu"), Watcher())

    first = run().artifacts
    store.discard(first["static"].key)
    run_file = first["start-train"].path / "run.trec.gz"
    before = run_file.read_bytes()
    run_file.chmod(0o644)
    run_file.write_bytes(before[:40] + bytes(len(before) - 40))
    with pytest.raises(ArtifactError, match=r"the bytes of run\.trec\.gz have .* `hardneg artifacts check --repair"):
        run()
    CliRunner().invoke(app, ["artifacts", "check", "--repair", "--store", str(store.root)])
    assert run().ran == ("start-train", "static")
    assert run_file.read_bytes() == before
