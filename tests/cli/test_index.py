"""`hardneg index build` on vectors, and `hardneg fuse`."""

from pathlib import Path

import command_line
import numpy as np
import pytest
from command_line import call

from hardneg.formats.runs import read_run, write_run
from hardneg.formats.vectors import FlatWriter
from hardneg.records import PluginError, UsageError
from hardneg.testing.indexes import write_encoded
from tests.run_lists import doc_lists, falling

faiss = pytest.importorskip("faiss")


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    return write_encoded(tmp_path / "flat", np.random.default_rng(1).standard_normal((50, 8)).astype(np.float32))


def _build(*arguments: object) -> tuple[str, BaseException | None]:
    result = call("index", "build", *arguments)
    return result.output, result.exception


def test_compresses_a_dense_index(flat: Path, tmp_path: Path) -> None:
    output, options = tmp_path / "small", ["--option", "subvectors=4", "--option", "bits=4"]
    said, error = _build("--vectors", flat, "--backend", "pq", *options, "--output", output)
    assert error is None, said
    size = (output / "index").stat().st_size
    assert f"{output}: 50 passages, {size} bytes" in said
    assert faiss.read_index(str(output / "index")).ntotal == 50
    assert sorted(path.name for path in tmp_path.iterdir()) == ["flat", "small"]
    assert _build("--vectors", flat, "--backend", "fp16", "--output", output)[1] is None
    (output / "index").unlink()
    (output / "index").write_text("mine")
    said, error = _build("--vectors", flat, "--backend", "fp16", "--output", output)
    assert isinstance(error, UsageError) and "already exists" in str(error)


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        ("--backend pq", UsageError, "pq is built from vectors; give only --vectors, a folder of vectors"),
        ("--vectors FLAT", UsageError, "bm25 is built from texts; give only --dataset"),
        ("--vectors FLAT --backend pqq", PluginError, "did you mean 'pq'"),
        ("--vectors FLAT --backend pq --option bit=4", PluginError, "did you mean 'bits'"),
        ("--vectors FLAT --backend pq", UsageError, "possible: 1, 2, 4, 8"),
    ],
)
def test_mistakes(words: str, kind: type[Exception], message: str, flat: Path, tmp_path: Path) -> None:
    _, error = _build(*words.replace("FLAT", str(flat)).split(), "--output", tmp_path / "out")
    assert isinstance(error, kind) and message in str(error)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_another_form_is_told(tmp_path: Path) -> None:
    tokens, empty = tmp_path / "tokens", tmp_path / "none"
    with FlatWriter(tokens, 2, 1) as writer:
        writer.write(np.ones((1, 2), np.float32))
        writer.write_doc_ids(["d"])
        writer.close()
    np.save(tokens / "offsets.npy", np.array([0, 1]))
    for folder, backend, told in (
        (tokens, "flat", f"{tokens} contains token-vectors, but flat is built from vectors"),
        (empty, "pq", f"{empty} was not written by `hardneg encode` or `hardneg index import`, but pq is built"),
    ):
        _, error = _build("--vectors", folder, "--backend", backend, "--output", tmp_path / "out")
        assert isinstance(error, UsageError) and told in str(error)
        assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    lists = {"dense": {"q1": "abcd", "q2": "xy"}, "bm25": {"q1": "cefa"}}
    lists |= {"dense-dev": {"d1": "ab", "d2": "ab"}, "bm25-dev": {"d1": "ba", "d2": "ba"}}
    for name, by_query in lists.items():
        write_run(folder / f"{name}.trec", falling(by_query).items())
    (folder / "dev.txt").write_text("d1 0 b 1\nd2 0 b 1\n")
    (folder / "same.txt").write_text("q1 0 b 1\n")
    return folder


def fuse(files, *words):
    runs = ["--run", files / "dense.trec", "--run", files / "bm25.trec", "--output", files / "made.trec.gz"]
    return command_line.call("fuse", *runs, *words)


def tuning(files, qrels="dev.txt"):
    return ["--tune-run", files / "dense-dev.trec", "--tune-run", files / "bm25-dev.trec", "--qrels", files / qrels]


def lists(files):
    run = read_run(files / "made.trec.gz")
    return dict(zip(list(run), map("".join, doc_lists(run)), strict=True))


def test_runs_are_zipped_in_the_order_given(files):
    result = fuse(files, "--method", "zip", "--depth", 5)
    assert result.exit_code == 0, (result.output, result.exception)
    assert lists(files) == {"q1": "acbef", "q2": "xy"}
    assert "2 queries, 7 documents" in result.stdout and "queries missing from bm25.trec: 1" in result.stdout


def test_weights_are_tuned_on_other_queries(files):
    result = fuse(files, "--method", "weighted-sum", "--metric", "mrr@10", *tuning(files))
    assert result.exit_code == 0, (result.output, result.exception)
    assert "tuned: mrr@10 1.0000, best of 11: dense.trec 0, bm25.trec 1" in result.stdout
    assert lists(files)["q1"].startswith("cef")
    grid = ["--grid", "bm25.trec=0.5,2,3"]
    result = fuse(files, "--method", "weighted-sum", "--metric", "mrr@10", *grid, *tuning(files))
    assert "best of 3: dense.trec 1, bm25.trec 2" in result.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--method wsun", "(got 'wsun'); did you mean 'wsum'?"),
        ("--weight bm25=1", "--weight: no run has the label 'bm25'; did you mean 'bm25.trec'?"),
        ("--weight bm25.trec=x", "bm25.trec=x: must be NAME=NUMBER"),
        ("--method zip --norm max", "norm: zip does not normalize scores"),
        ("--grid bm25.trec=1", "--grid and --qrels are for tuning"),
    ],
)
def test_mistakes_are_told(files, words, told):
    assert told in str(fuse(files, *words.split()).exception)
