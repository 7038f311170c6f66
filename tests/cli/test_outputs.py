"""Nothing of the user's is replaced: outputs that are inputs, that were there before, that cannot be written."""

import gzip
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from command_line import hardneg
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.records import ArtifactError, HardnegError, UsageError
from hardneg.store import WHOLE, Outputs, Store, Target

RUN = "q0 Q0 d1 1 2 x\nq1 Q0 d2 1 1 x\n"
ENCODE = "encode --dataset beir:data --model model --device cpu --output"
MINE = "mine --dataset beir:data --run a.run --form tevatron-v1 --output"
FUSE = "fuse --run a.run --run b.trec.gz --output"
RERANK = "rerank --dataset beir:data --run b.trec.gz --reranker cross-encoder:judge --output"
EXPORT = "export --dataset beir:data --negatives a.jsonl --from tevatron-v1 --form tevatron-v1 --output"
TRAIN = "train --dataset beir:data --model model --output"
SEARCH = "search --dataset beir:data --backend bm25 --output"
IMPORT = "index import --vectors v.npy --ids ids.txt --output"
REPORT = "report --qrels qrels.txt --run a.run --output"
RECIPE = "recipe run small.yaml --output"
ERRORS = "analyze errors --qrels qrels.txt --index in --queries data/queries.jsonl --model model"
OVER = "--overwrite"


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, tiny_model: Path, tiny_reranker: Path) -> Path:
    folder = tmp_path_factory.mktemp("outputs")
    small_collection(folder / "data")
    shutil.copytree(tiny_model, folder / "model")
    shutil.copytree(tiny_reranker, folder / "judge")
    (folder / "a.run").write_text(RUN)
    (folder / "b.trec.gz").write_bytes(gzip.compress(RUN.encode()))
    (folder / "qrels.txt").write_text("q0 0 d1 1\nq1 0 d3 1\n")
    np.save(folder / "v.npy", np.eye(3, dtype=np.float32))
    (folder / "ids.txt").write_text("a\nb\nc\n")
    tree = small_tree(Path("data"), Path("model"))
    write_recipe(folder / "small.yaml", tree)
    return folder


@pytest.fixture
def place(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user's folder to work in, with data, model and runs, and a store beside it."""
    shutil.copytree(base, tmp_path / "work")
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    return tmp_path / "work"


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(place: Path, line: str, kind: type[HardnegError] = UsageError) -> str:
    """The message; the folder is as it was, and the store has made nothing."""
    before = content(place)
    with pytest.raises(kind) as caught:
        hardneg(line)
    assert content(place) == before
    assert not list((place.parent / "store").glob("*/manifest.json"))
    return str(caught.value)


@pytest.mark.parametrize("more", ["", OVER])
@pytest.mark.parametrize(
    "line",
    [
        f"{MINE} data/corpus.jsonl",
        f"{MINE} x.jsonl --dropped data/qrels/test.tsv",
        "mine --dataset beir:data --run a.jsonl --form tevatron-v1 --output a.jsonl",
        f"{FUSE} b.trec.gz",
        f"{RERANK} b.trec.gz",
        f"{EXPORT} a.jsonl",
        f"{SEARCH} data/run.trec.gz",
        *(f"{ENCODE} {output}" for output in ("model", "data", "data/index", "holder", ".")),
        f"{TRAIN} model",
        "index import --vectors in/v.npy --ids ids.txt --output in",
        "index build --vectors in --backend fp16 --output in",
        "report --qrels data/qrels/test.tsv --run report.html --output .",
        f"{ERRORS} --plot in/errors.png",
        f"{RECIPE} data/run",
        f"{RECIPE} .",
    ],
)
def test_what_a_command_reads_is_never_replaced(place, line, more):
    for name in ("a.jsonl", "report.html"):
        (place / name).write_text("of the user's")
    (place / "in").mkdir()
    for name in ("v.npy", "index", "docid"):
        (place / "in" / name).write_text("of the user's")
    (place / "linked").symlink_to(place)
    if line.endswith("holder"):
        (place / "holder").mkdir()
        (place / "data").rename(place / "holder" / "data")
        (place / "data").symlink_to(place / "holder" / "data")
    message = refused(place, f"{line} {more}")
    assert any(word in message for word in ("is ", "contains ")), message


@pytest.mark.parametrize(
    ("line", "name"),
    [
        (f"{MINE} thesis.jsonl", "thesis.jsonl"),
        (f"{MINE} x.jsonl --dropped thesis.arrow", "thesis.arrow"),
        (f"{FUSE} best.trec.gz", "best.trec.gz"),
        (f"{ENCODE} trained", "trained/hardneg.json"),
        (f"{ENCODE} prebuilt", "prebuilt/docid"),
        (f"{TRAIN} trained", "trained/hardneg.json"),
        (f"{IMPORT} prebuilt", "prebuilt/docid"),
        (f"{REPORT} pages", "pages/report.html"),
        ("analyze scores --run a.run --plot photo.png", "photo.png"),
        (f"{RECIPE} project", "project/metrics.json"),
        (f"{RECIPE} project", "project/model/weights"),
    ],
)
def test_what_stood_there_before_is_not_replaced(place, line, name):
    (place / name).parent.mkdir(parents=True, exist_ok=True)
    (place / name).write_text("of the user's")
    message = refused(place, line)
    assert f"{name}: already exists" in message and OVER in message


@pytest.mark.parametrize(
    ("make", "output", "told"),
    [
        (lambda place: (place / "out" / "model").symlink_to(place / "model"), "out", "model: is a symbolic link"),
        (lambda place: (place / "out" / "model").touch(), "out", "model: is not a folder"),
        (lambda place: (place / "out" / "metrics.json").mkdir(), "out", "metrics.json: is not a file"),
        (lambda place: (place / "away").symlink_to("nowhere"), "away", "away: is a broken symbolic link"),
        (lambda place: None, "new/../out", "new does not exist"),
    ],
)
def test_a_run_folder_with_things_of_another_kind(place, make, output, told):
    (place / "out").mkdir()
    make(place)
    assert told in refused(place, f"{RECIPE} {output} {OVER}")


def test_overwrite_replaces_it(place):
    (place / "best.trec.gz").write_text("of the user's")
    hardneg(FUSE, "best.trec.gz", OVER)
    assert gzip.decompress((place / "best.trec.gz").read_bytes()).startswith(b"q0 Q0 d1")


@pytest.mark.parametrize(
    ("line", "output"),
    [
        (f"{MINE} mined.jsonl", "mined.jsonl"),
        (f"{FUSE} best.trec.gz", "best.trec.gz"),
        (f"{ENCODE} index", "index/docid"),
        (f"{REPORT} report", "report/report.md"),
    ],
)
def test_a_command_replaces_its_own_result_until_it_is_changed(place, line, output):
    hardneg(line)
    hardneg(line)
    path = place / output
    path.chmod(0o644)
    shutil.copy(path, place / "copy")
    (place / "copy").write_bytes(path.read_bytes() + b"\n")
    (place / "copy").replace(path)
    with pytest.raises(UsageError, match="already exists"):
        hardneg(line)
    hardneg(line, OVER)
    hardneg(line)


def test_a_command_does_not_replace_the_result_of_another(place):
    hardneg(ENCODE, "index")
    with pytest.raises(UsageError, match="not written by `hardneg index import`"):
        hardneg(IMPORT, "index")
    (place / "index" / "notes.txt").touch()
    with pytest.raises(UsageError, match=r"notes\.txt: already exists"):
        hardneg(ENCODE, "index")


def test_a_command_that_failed_leaves_what_it_knew(place, monkeypatch):
    line = f"{FUSE} best.trec.gz"
    hardneg(line)
    (root,) = place.parent.glob(f"store/roots/{'?' * 32}.json")
    known = root.read_text()

    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch, pytest.raises(ArtifactError, match="the disk is full"):
        patch.setattr("hardneg.cli.commands.link_file", fail)
        hardneg(line)
    assert root.read_text() == known


@pytest.fixture
def closed(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder that may not be written; root, who may write everywhere, is told so."""
    folder = place / "closed"
    folder.mkdir()
    folder.chmod(0o555)
    if os.geteuid() == 0:
        monkeypatch.setattr("hardneg.store.outputs.may_write", lambda path: path.name != "closed")
    yield folder
    folder.chmod(0o755)


@pytest.mark.parametrize(
    "line",
    [
        f"{FUSE} closed/best.trec.gz",
        f"{ENCODE} closed/deep/index",
        f"{REPORT} closed",
        f"{REPORT} a.run/report",
        "analyze scores --run a.run --plot closed/scores.png",
        f"{RECIPE} closed",
        f"{FUSE} {'x' * 300}.trec.gz",
    ],
)
def test_a_place_that_cannot_be_written_is_told_before_any_work(place, closed, line):
    message = refused(place, line, ArtifactError)
    assert "give another --output" in message and "\n" not in message


@pytest.mark.parametrize("names", [WHOLE, ("runs/", "metrics.json")])
def test_the_root_folder_is_no_output(tmp_path, names):
    for overwrite in (False, True):
        target = Target(Path("/"), folder=True, names=names)
        with pytest.raises(UsageError, match=r"^/: is the root folder; give a separate folder$"):
            Outputs("recipe run", [target], [], Store(tmp_path / "store"), overwrite).check()
