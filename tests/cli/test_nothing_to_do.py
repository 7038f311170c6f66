"""Nothing to work on is no success: one line, and the exit code of a data file."""

import subprocess
import sys
from pathlib import Path

import pytest
from recipe.recipes import small_collection
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.errors import DataError

HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HARDNEG_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    return small_collection(tmp_path / "data")


def refused(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert isinstance(result.exception, DataError) and result.exception.exit_code == 4, result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_encode_and_index_an_empty_corpus(folder: Path, tiny_model: Path) -> None:
    (folder / "corpus.jsonl").write_text("")
    model = ["--model", str(tiny_model), "--device", "cpu"]
    told = refused("encode", "--dataset", f"beir:{folder}", *model, "--output", "out")
    assert "the corpus has no documents" in told and not Path("out").exists()
    told = refused("index", "build", "--dataset", f"beir:{folder}", "--output", "out")
    assert "the corpus has no documents" in told and not Path("out").exists()


@pytest.mark.parametrize("qrels", ["", HEADER, "q999 0 d1 1\n"])
def test_search_an_empty_split(folder: Path, tiny_model: Path, qrels: str) -> None:
    (folder / "qrels" / "test.tsv").write_text(qrels)
    model = ["--model", str(tiny_model), "--device", "cpu"]
    told = refused("search", "--dataset", f"beir:{folder}", *model, "--split", "test", "--output", "run.trec.gz")
    assert "split test has no queries" in told and not Path("run.trec.gz").exists()


def test_mine_without_positives(folder: Path) -> None:
    (folder / "qrels" / "train.tsv").write_text(f"{HEADER}q1\td1\t0\nq2\td2\t0\n")
    Path("run").write_text("q1 Q0 d3 1 1 x\n")
    words = ["--dataset", f"beir:{folder}", "--run", "run", "--form", "n-tuple", "--output", "n.jsonl"]
    told = refused("mine", *words)
    assert "none of the 2 queries of split train has a positive" in told and not Path("n.jsonl").exists()


def test_evaluate_an_empty_run(tmp_path: Path) -> None:
    (tmp_path / "qrels").write_text("q1 0 d1 1\n")
    (tmp_path / "run").write_text("")
    words = ["evaluate", "--qrels", str(tmp_path / "qrels"), "--run", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-m", "hardneg", *words], text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == f"hardneg: {tmp_path}/run: the run is empty\n"
