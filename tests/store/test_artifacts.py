import errno
import os
import subprocess
import sys
import textwrap
import time

import pytest

from hardneg.records import ArtifactError, ClosedArtifact
from hardneg.runtime import Silent
from hardneg.store import MANIFEST, Artifact, Store, aside, check, disk_errors
from hardneg.store.outputs import garbage
from tests.nfs_locks import as_nfs

KEY = "ab" * 16


def make(store: Store, key: str = KEY, text: str = "hello") -> Artifact:
    (store.workspace(key) / "sub").mkdir(exist_ok=True)
    (store.workspace(key) / "sub" / "data").write_text(text)
    return store.commit(key, "run", {"queries": 3}, {"stage": "search", "name": "bm25"})


def test_an_artifact_is_found_after_its_commit_only(tmp_path):
    store = Store(tmp_path)
    (store.workspace(KEY) / "half").write_text("x")
    assert store.find(KEY) is None
    made = make(store)
    found = store.find(KEY)
    assert found == made
    assert found.facts == {"queries": 3} and (found.path / "sub" / "data").read_text() == "hello"
    assert not (tmp_path / f"{KEY}.partial").exists()


def test_what_a_killed_writer_left_aside_is_no_part_of_the_artifact(tmp_path):
    store = Store(tmp_path)
    (store.workspace(KEY) / "sub").mkdir()
    (store.workspace(KEY) / ".b.tmp").touch()  # not of a writer
    for name in ("data", "sub/data"):
        aside(store.workspace(KEY) / name).write_text("half")
    assert set(make(store).files) == {"sub/data", ".b.tmp"}
    assert [path.name for path in (store.root / KEY).rglob(".*")] == [".b.tmp"]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: (path / MANIFEST).write_text('{"form'), "damaged"),
        (lambda path: (path / MANIFEST).write_text("[]"), "not a manifest"),
        (lambda path: (path / MANIFEST).write_text('{"format": 99}'), "newer hardneg"),
    ],
)
def test_damage_is_told(tmp_path, damage, message):
    store = Store(tmp_path)
    path = make(store).path
    for file in [path / MANIFEST, path / "sub" / "data"]:
        file.chmod(0o644)
    damage(path)
    with pytest.raises(ArtifactError, match=message):
        store.find(KEY)
    store.discard(KEY)
    assert store.find(KEY) is None and make(store)


def test_the_lock_of_a_dead_process_is_free(tmp_path):
    program = textwrap.dedent(f"""
        import os, signal, time
        from pathlib import Path
        from hardneg.store.artifacts import Store
        with Store(Path({str(tmp_path)!r})).lock({KEY!r}):
            print("held", flush=True)
            time.sleep(3600)
    """)
    holder = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    store = Store(tmp_path)
    (store.workspace(KEY) / "x").write_text("x")
    assert garbage(store) == []
    waited = []

    def waiting():
        waited.append(time.monotonic())
        holder.kill()

    with store.lock(KEY, waiting):
        assert waited
    holder.wait()
    holder.stdout.close()
    assert [path.name for path, _ in garbage(store)] == [f"{KEY}.partial"]


@pytest.mark.parametrize(("number", "words"), [(errno.ENOSPC, "disk is full"), (errno.EROFS, "read-only")])
def test_the_disk_is_named_in_one_line(tmp_path, number, words):
    with pytest.raises(ArtifactError, match=words), disk_errors(tmp_path):
        raise OSError(number, os.strerror(number), "somewhere")
    with pytest.raises(ArtifactError, match=r"^written"), disk_errors(tmp_path):  # as of a copy that fails
        raise OSError(number, os.strerror(number), "read", None, "written")


@pytest.mark.parametrize("read_only", [False, True])
def test_held_locks_are_seen_on_a_network_file_system(tmp_path, monkeypatch, read_only):
    asked = as_nfs(monkeypatch)
    store = Store(tmp_path)
    with store.lock("a"), store.lock("b", shared=True):
        pass
    monkeypatch.setattr(Store, "read_only", read_only)
    assert not store.held("a")
    with Store(tmp_path).lock("a"):
        assert store.held("a")
    assert len(asked) == 5


def test_what_another_user_keeps_closed_is_not_damaged(tmp_path, monkeypatch):
    store = Store(tmp_path)
    make(store)

    def closed(path, **given):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("pathlib.Path.read_text", closed)
    with pytest.raises(ClosedArtifact, match="made by another user and not readable by you; ask for read permission"):
        store.find(KEY)
    with pytest.raises(ClosedArtifact):
        list(check(store, Silent()))
