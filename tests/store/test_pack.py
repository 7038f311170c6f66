"""A packed run: the round trip into an empty store, and files that are refused."""

import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

import pytest
from recipes.recipes import small_collection, small_tree, write_recipe
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.records import ArtifactError, DataError
from hardneg.store import Store, digest
from hardneg.store.pack import pack, unpack


def command(*words: object) -> Any:
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_packed_run_needs_no_step_in_an_empty_store(tmp_path: Path, tiny_model: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = write_recipe(
        tmp_path / "small.yaml", small_tree(small_collection(tmp_path / "data"), shutil.copytree(tiny_model, "model"))
    )
    done = command("recipe", "run", recipe, "--store", "first", "--output", "run")
    assert done.exit_code == 0, done.output
    for name in ("run.tar", "run.tar.gz"):
        assert command("artifacts", "pack", "run", "--to", name, "--store", "first").exit_code == 0
        store = f"of-{name}"
        found = command("artifacts", "unpack", name, "--output", f"{name}-run", "--store", store)
        assert f"  hardneg recipe run {name}-run/recipe.lock.yaml --store {store}\n" in found.output, found.output
        again = command("recipe", "run", recipe, "--store", store, "--output", f"{name}-run")
        assert again.exit_code == 0 and "0 of " in again.output, again.output
        for path in (each for each in Path("run").rglob("*") if each.is_file()):
            assert Path(f"{name}-run", path.relative_to("run")).read_bytes() == path.read_bytes()
        assert command("artifacts", "gc", "--delete", "--store", store).output.startswith("0 folders")
        assert command("artifacts", "check", "--store", store).exit_code == 0
    assert Path("run.tar").stat().st_size > Path("run.tar.gz").stat().st_size
    for missing in ("data", "model"):  # the lock file stands in for both
        Path(missing).rename(f"{missing}-away")
        again = command("recipe", "run", "run.tar-run/recipe.lock.yaml", "--store", store, "--output", f"no-{missing}")
        assert again.exit_code == 0 and "0 of " in again.output, again.output
    again = command("recipe", "run", "run.tar-run/recipe.lock.yaml", "--store", store, "--force", "dataset")
    assert "data: no such folder" in str(again.exception)
    again = command("artifacts", "unpack", "run.tar", "--output", "run", "--store", "first")
    assert "already exists" in str(again.exception)


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    store, origin = Store(tmp_path / "own"), {"stage": "search"}
    key = digest(origin)
    (store.workspace(key) / "data").write_text("hello")
    artifact = store.commit(key, "run", {}, {**origin, "name": "search"})
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "data").hardlink_to(artifact.path / "data")
    pack(tmp_path / "run", {"search": artifact}, tmp_path / "run.tar")
    return tmp_path / "run.tar"


def changed(file: Path, change: Any) -> Path:
    with tarfile.open(file) as tar:
        entries = [(each, tar.extractfile(each).read() if each.isreg() else b"") for each in tar]  # type: ignore[union-attr]
    with tarfile.open(file.with_name("changed.tar"), "w") as tar:
        for entry, content in change(entries):
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return file.with_name("changed.tar")


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, link
    return made, b""


def replaced(entries: Any, old: bytes, new: bytes) -> Any:
    return [(made, content.replace(old, new)) for made, content in entries]


KEY = digest({"stage": "search"})
MORE = f"artifacts/{KEY}/more"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda all_: [*all_, entry("run/../../away")], "not a regular file"),
        (lambda all_: [*all_, entry("/away")], "not a regular file"),
        (lambda all_: [*all_, entry("elsewhere/away")], "not a regular file"),
        (lambda all_: [*all_, entry("run/link", tarfile.SYMTYPE, "/etc")], "not a regular file"),
        (lambda all_: [*all_, entry("run/link", tarfile.LNKTYPE, "pack.json")], "not a regular file"),
        (lambda all_: [*all_, entry("run/null", tarfile.CHRTYPE)], "not a regular file"),
        (lambda all_: [*all_, entry("pack.json")], "not a packed run"),
        (lambda all_: replaced([*all_, entry(MORE)], b'"files": 2', b'"files": 3'), "not in its manifest"),
        (lambda all_: replaced(all_, b"hello", b"hellO"), "have changed"),
        (lambda all_: all_[:-1], "truncated to"),
        (lambda all_: [each for each in all_ if each[0].name != "pack.json"], "not a packed run"),
        (lambda all_: replaced(all_, b'"data": "artifacts', b'"../data": "artifacts'), "leads outside"),
        (lambda all_: replaced(all_, b'"links": {', b'"links": {"x": "artifacts/../../own", '), "leads outside"),
        (lambda all_: replaced(all_, b'"links": {', b'"links": {"x": "run/none", '), "missing"),
    ],
)
def test_what_is_refused_leaves_nothing(packed: Path, tmp_path: Path, change: Any, told: str) -> None:
    store, folder = Store(tmp_path / "store"), tmp_path / "out"
    with pytest.raises((DataError, ArtifactError), match=told):
        unpack(changed(packed, change), store, folder)
    assert not folder.exists() and store.find(KEY) is None
    assert {path.name for path in store.root.iterdir()} == {"locks"} and not (tmp_path / "away").exists()


def test_an_artifact_with_other_bytes_stays(packed: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (store.workspace(KEY) / "data").write_text("other")
    store.commit(KEY, "run", {}, {"stage": "search", "name": "search"})
    with pytest.raises(ArtifactError, match="differs from the packed artifact"):
        unpack(packed, store, tmp_path / "out")
    assert (store.root / KEY / "data").read_text() == "other"


def test_a_cut_off_file_and_remains_of_a_kill(packed: Path, tmp_path: Path) -> None:
    store = Store(tmp_path / "store")
    (store.root / ".unpack-x" / "artifacts" / KEY).mkdir(parents=True)
    packed.with_name("cut.tar").write_bytes(packed.read_bytes()[:1500])
    with pytest.raises(DataError, match=r"truncated to|not a packed run"):
        unpack(packed.with_name("cut.tar"), store, tmp_path / "out")
    assert unpack(packed, store, tmp_path / "out") == tmp_path / "out"
    assert (tmp_path / "out" / "data").samefile(store.root / KEY / "data")
    assert not list(store.root.glob(".unpack-*"))
