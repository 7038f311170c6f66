"""`hardneg evaluate --mteb`: models on tasks made of local files, resumed, compared."""

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import forked
import numpy as np
import pytest
from command_line import call
from made_tasks import animals, write_beir_folder
from numpy.typing import NDArray
from tiny import tiny_static

from hardneg.encoders.corpus import stream
from hardneg.evaluation.metrics_json import read_metrics
from hardneg.formats.vectors.flat_vectors import FlatWriter


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BEIR folder `animals`, two models and a store."""
    root = tmp_path_factory.mktemp("mteb")
    write_beir_folder(animals(), root / "animals")
    tiny_static(root / "one")
    tiny_static(root / "two", seed=1)
    return root


def evaluated(made: Path, output: Path, *words: object, models: tuple[str, ...] = ("one",), code: int = 0) -> str:
    named = [word for model in models for word in ("--model", made / model)]
    line = ["evaluate", "--mteb", f"beir:{made / 'animals'}", *named, "--store", made / "store"]
    done = call(*line, "--output", output, *words)
    assert getattr(done.exception, "exit_code", done.exit_code) == code, f"{done.output}{done.exception!r}"
    return done.output + (str(done.exception) if code else "")


def test_models_are_compared_on_a_folder(made, tmp_path):
    told = evaluated(made, tmp_path / "out", "--baseline", str(made / "two"), "--metrics", "ndcg@10")
    place = tmp_path / "out" / "beir-animals" / "test"
    measured = read_metrics(place / "metrics.json")
    assert list(measured.results) == ["one", "two"]
    assert [(each.system, each.baseline) for each in measured.comparisons] == [("one", "two")]
    assert "beir-animals/test" in told
    assert sorted(path.name for path in place.iterdir()) == ["metrics.json", "one.trec.gz", "qrels.txt", "two.trec.gz"]
    results = sorted((tmp_path / "out" / "results").glob("local__*/*/beir-animals.json"))
    main = [json.loads(path.read_text())["scores"]["test"][0]["ndcg_at_10"] for path in results]
    means = [sum(each["ndcg@10"].values()) / 12 for each in measured.results.values()]
    assert means == pytest.approx(main, abs=1e-5)


def test_two_tasks_have_ranks_and_tests_over_tasks(made, tmp_path):
    shutil.copytree(made / "animals", tmp_path / "copy")
    more = ("--mteb", f"beir:{tmp_path / 'copy'}", "--metrics", "mrr@10", "--equivalence-margin", "0.02")
    told = evaluated(made, tmp_path / "out", *more, models=("one", "two"))
    assert "over 2 tasks" in told and "Tasks are what is drawn at random." in told
    content = json.loads((tmp_path / "out" / "tasks.json").read_text())
    assert [*content["per_task"]["one"]["mrr@10"]] == ["beir-animals", "beir-copy"]
    assert [(each["n"], each["verdict"]) for each in content["comparisons"]] == [(2, "undecided")]
    assert {(each["best"], each["worst"]) for each in content["ranks"]} == {(1, 2)}
    assert read_metrics(tmp_path / "out" / "beir-copy" / "test" / "metrics.json").equivalence_margin == 0.02
    told = evaluated(made, tmp_path / "out", *more, "--json", models=("one", "two"))
    assert json.loads(told.splitlines()[-1])["over tasks"]["ranks"] == content["ranks"]


def test_what_is_done_is_not_done_again(made, tmp_path, monkeypatch):
    from hardneg.doors.mteb.model import TaskSearcher

    first = evaluated(made, tmp_path / "out", "--json")
    monkeypatch.setattr(TaskSearcher, "index", None)
    assert evaluated(made, tmp_path / "out", "--json").splitlines()[-1] == first.splitlines()[-1]


@pytest.mark.parametrize("broken", ["predictions/local__one/*/*_predictions.json", "results/local__one/*/beir-*.json"])
@pytest.mark.parametrize("whole", [False, True])
def test_a_file_that_was_cut_off_or_exchanged_is_made_again(broken, whole, made, tmp_path):
    first = evaluated(made, tmp_path / "out", "--json")
    (path,) = sorted((tmp_path / "out").glob(broken))
    path.write_bytes(b"[]" if whole else path.read_bytes()[:-9])
    assert evaluated(made, tmp_path / "out", "--json").splitlines()[-1] == first.splitlines()[-1]


def test_another_content_is_evaluated_again(made, tmp_path):
    own = tmp_path / "made"
    shutil.copytree(made, own)
    first = evaluated(own, tmp_path / "out", "--json")
    lines = (own / "animals" / "qrels" / "test.tsv").read_text().splitlines()
    (own / "animals" / "qrels" / "test.tsv").write_text("\n".join(lines[:-3]) + "\n")
    assert evaluated(own, tmp_path / "out", "--json").splitlines()[-1] != first.splitlines()[-1]


def test_predictions_of_others_are_compared(made, tmp_path):
    evaluated(made, tmp_path / "out", "--json")
    (folder,) = (tmp_path / "out" / "predictions").glob("local__one/*")
    shutil.copytree(folder, tmp_path / "copy")
    given = ("--predictions", str(folder), "--predictions", str(tmp_path / "copy"))
    found = json.loads(evaluated(made, tmp_path / "both", "--json", *given, models=("two",)).splitlines()[-1])
    rows = found["beir-animals/test"]["metrics"]
    assert list(rows) == ["two", "local__one", "copy"]
    assert rows["local__one"] == rows["copy"] != rows["two"]


def test_mistakes_have_one_line(made, tmp_path, monkeypatch):
    out = tmp_path / "out"
    told = evaluated(made, out, "--mteb", "SciFakt", "--mteb", "Banking77Classification", code=2)
    assert "mteb has no task 'SciFakt'; did you mean 'SciFact'?" in told
    assert "Banking77Classification is a task of Classification, which is no retrieval" in told
    assert "give --model NAME" in evaluated(made, out, models=(), code=2)
    assert "give --model NAME" in evaluated(made, out, "--model", "", code=2)
    assert "leave out --qrels" in evaluated(made, out, "--qrels", str(made / "animals"), code=2)
    assert "no such folder" in evaluated(made, out, models=("three",), code=6)
    assert "no folder of mteb's results" in evaluated(made, made, code=2)
    assert "no split 'dev'" in evaluated(made, out, "--split", "dev", code=4)
    monkeypatch.setitem(sys.modules, "mteb", None)
    assert 'pip install "hardneg[mteb]"' in evaluated(made, out, code=7)


@pytest.mark.parametrize(
    ("lists", "told"),
    [
        ('{"q1": {"d1": "x"}}', "not a score for each document of each query (could not convert"),
        ('{"q1": ["d1"]}', "not a score for each document of each query ('list' object"),
        ('{"q1": {"d1": NaN, "d2": 3}}', "query q1 has a score that is not a finite 32-bit number"),
        ("{}", "holds no query's documents: evaluate the model on it first"),
    ],
)
def test_predictions_that_are_none_are_told_by_their_file(made, tmp_path, lists, told):
    path = tmp_path / "given" / "beir-animals_predictions.json"
    path.parent.mkdir()
    path.write_text(f'{{"default": {{"test": {lists}}}}}')
    given = ("--predictions", path.parent)
    assert f"{path}: split test: {told}" in evaluated(made, tmp_path / "out", *given, models=(), code=4)


def test_a_corpus_without_documents_is_told(made, tmp_path):
    empty = shutil.copytree(made / "animals", tmp_path / "empty")
    (empty / "corpus.jsonl").write_text("")
    line = ["evaluate", "--mteb", f"beir:{empty}", "--model", made / "one", "--store", tmp_path / "store"]
    told = str(call(*line, "--output", tmp_path / "out").exception)
    assert "task beir-empty: the corpus has no documents" in told


def test_a_run_or_a_task_is_asked_for():
    assert "give --run FILE for each run, or --mteb TASK" in str(call("evaluate").exception)


KILLED = """
import os, signal, sys
from hardneg.formats.vectors.flat_vectors import FlatWriter
from hardneg.encoders.corpus import stream
from hardneg.cli.main import app

write = FlatWriter.write_block
def killed(self, number, start_row, vectors):
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    write(self, number, start_row, vectors)

FlatWriter.write_block = killed
stream.BLOCK = 20
app(sys.argv[1:])
"""


@pytest.mark.slow
def test_encoding_goes_on_after_a_kill(made, tiny_model, tmp_path, monkeypatch):
    """60 documents in blocks of 20: two are on disk when the process is killed."""
    line = ["evaluate", "--mteb", f"beir:{made / 'animals'}", "--model", str(tiny_model), "--device", "cpu"]
    line += ["--store", str(tmp_path / "store"), "--output", str(tmp_path / "out")]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    killed = forked.run([sys.executable, "-c", KILLED, *line], capture_output=True, env=environment)
    assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
    written = list[int]()
    write = FlatWriter.write_block

    def noted(self: FlatWriter, number: int, start_row: int, vectors: NDArray[np.float32]) -> None:
        written.append(number)
        write(self, number, start_row, vectors)

    monkeypatch.setattr(FlatWriter, "write_block", noted)
    monkeypatch.setattr(stream, "BLOCK", 20)
    assert call(*line).exit_code == 0
    assert written == [2]
    whole = [*line[:-3], tmp_path / "another", "--output", tmp_path / "whole"]
    assert call(*whole).exit_code == 0
    place = Path("beir-animals/test/metrics.json")
    assert (tmp_path / "out" / place).read_bytes() == (tmp_path / "whole" / place).read_bytes()
