"""What the store keeps: results that are there, and what runs have made that did not finish."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from hardneg.records import ArtifactError, UsageError
from hardneg.store import Outputs, Store, Target
from hardneg.store.outputs import collect, files_of, garbage, publish, reserve, unfinished

KEY, OTHER = "ab" * 16, "cd" * 16


def record(store: Store) -> dict[str, Any]:
    return next((json.loads(path.read_text()) for path in store.root.glob("roots/*.json")), {})


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """One finished artifact and one that is being made."""
    store = Store(tmp_path / "store")
    (store.workspace(KEY) / "data").write_text("x")
    store.commit(KEY, "run", {}, {})
    (store.workspace(OTHER) / "half").write_text("x")
    return store


def test_a_run_keeps_its_keys_until_it_is_finished_or_forgotten(store, tmp_path):
    out = tmp_path / "out"
    assert len(garbage(store)) == 2
    with reserve(store, "recipe run", out, [KEY, OTHER]):
        (run,) = unfinished(store)
        assert run.running and run.owner == out and run.command == "recipe run" and run.keys == {KEY, OTHER}
        assert garbage(store) == collect(store, forget=True) == []
        with publish(store, "recipe run", out, [KEY], [out]):
            out.mkdir()
    assert unfinished(store) == []
    assert [path.name for path, _ in garbage(store)] == [f"{OTHER}.partial"]
    out.rmdir()
    assert len(collect(store)) == 2 and not list(store.root.glob("roots/*"))


def test_what_a_run_finds_while_it_is_taken_away_stays(store, tmp_path, monkeypatch):
    """A run notes its keys after the last look at them, and before the folder is renamed."""
    rename, runs = Path.rename, contextlib.ExitStack()

    def noted(path: Path, target: Path) -> Path:
        if path == store.root / KEY:
            runs.enter_context(reserve(store, "recipe run", tmp_path / "out", [KEY]))
            assert store.find(KEY)
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", noted)
    with runs:
        assert [path.name for path, _ in collect(store)] == [f"{OTHER}.partial"]
        assert store.find(KEY)


@pytest.mark.parametrize("end", ["raise SystemExit(130)", "os.kill(os.getpid(), 9)"])
def test_what_a_stopped_run_has_made_is_kept(store, tmp_path, end):
    program = textwrap.dedent(f"""
        import os
        from pathlib import Path
        from hardneg.store.artifacts import Store
        from hardneg.store.outputs import reserve
        with reserve(Store(Path({str(store.root)!r})), "train", Path({str(tmp_path / "out")!r}), {[KEY, OTHER]!r}):
            {end}
    """)
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode in (130, -9)
    (run,) = unfinished(store)
    assert not run.running and garbage(store) == collect(store) == []
    assert len(garbage(store, forget=True)) == len(collect(store, forget=True)) == 2
    assert unfinished(store) == [] and [path.name for path in store.root.iterdir() if len(path.name) > 6] == []


def test_nothing_is_removed_where_a_root_cannot_be_read(store, tmp_path):
    with publish(store, "recipe run", tmp_path / "out", [KEY], []):
        (tmp_path / "out").mkdir()
    (root,) = store.root.glob("roots/*")
    root.write_text("{")
    with pytest.raises(ArtifactError, match="damaged"):
        collect(store)
    assert store.find(KEY)


def test_a_result_is_known_by_its_files_as_they_were(store, tmp_path):
    out = tmp_path / "out"
    with publish(store, "encode", out, [KEY], [out]):
        assert record(store)["files"] is None
        out.mkdir()
        (out / "own").write_text("x")
        os.link(store.root / KEY / "data", out / "linked")
    assert record(store)["command"] == "encode" and set(record(store)["files"]) == {"own", "linked"}
    outputs = Outputs("encode", [Target(out, folder=True)], [], store)
    outputs.check()
    os.utime(store.root / KEY / "data", ns=(1, 1))
    outputs.check()
    (out / "own").write_text("xy")
    with pytest.raises(UsageError, match="out/own: already exists and has changed since `encode` wrote it"):
        outputs.check()
    (out / "new").touch()
    with pytest.raises(UsageError, match=r"out/new, .*out/own: already exists and was not written by `encode`"):
        outputs.check()


def test_what_a_command_wrote_earlier_stays_its_own_until_it_is_changed(store, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    for name in ("first", "second", "third"):
        with publish(store, "recipe run", out, [KEY], [out / name]):
            (out / name).write_text(name)
        if name == "second":
            (out / name).write_text("of the user's")
    assert set(record(store)["files"]) == {"first", "third"}
    with publish(store, "report", out, [KEY], [out / "fourth"]):
        (out / "fourth").write_text("x")
    assert set(record(store)["files"]) == {"fourth"}


def test_a_failed_write_is_known_as_far_as_it_went(store, tmp_path):
    out = tmp_path / "out"
    for text in (None, "x"):
        with pytest.raises(KeyboardInterrupt), publish(store, "fuse", out, [], [out]):
            if text:
                out.write_text(text)
            raise KeyboardInterrupt
        assert record(store).get("files", {}) == files_of(out, [out])


@pytest.mark.parametrize("taking", ["its keys are noted", "it is made"])
def test_what_a_run_takes_while_others_are_removed_stays(store, tmp_path, monkeypatch, taking):
    remove, runs = shutil.rmtree, contextlib.ExitStack()

    def slow(path: Path) -> None:
        monkeypatch.undo()
        if taking == "it is made":
            runs.enter_context(store.lock(OTHER))
        else:
            runs.enter_context(reserve(store, "encode", tmp_path / "out", [OTHER]))
        remove(path)

    monkeypatch.setattr("shutil.rmtree", slow)
    with runs:
        assert [path.name for path, _ in collect(store)] == [KEY]
        assert (store.root / f"{OTHER}.partial" / "half").read_text() == "x"
        monkeypatch.undo()
        assert store.find(KEY) is None and collect(store) == []
    assert sorted(path.name for path in store.root.iterdir())[:1] == [f"{OTHER}.partial"]


def test_a_run_that_begins_again_is_not_forgotten(store, tmp_path, monkeypatch):
    with contextlib.suppress(KeyboardInterrupt), reserve(store, "encode", tmp_path / "out", [OTHER]):
        raise KeyboardInterrupt
    seen = unfinished(store)
    with reserve(store, "encode", tmp_path / "out", [OTHER]):
        monkeypatch.setattr("hardneg.store.outputs.unfinished", lambda store: seen)  # as it was looked at just before
        collect(store, forget=True)
        monkeypatch.undo()
        assert unfinished(store)[0].running and (store.root / f"{OTHER}.partial").exists()


def test_a_removal_that_was_killed_is_finished_by_the_next(store, monkeypatch):
    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("shutil.rmtree", killed)
        collect(store)
    assert store.find(KEY) is None and len(collect(store)) == 2
    assert sorted(path.name for path in store.root.iterdir()) == ["locks"]
