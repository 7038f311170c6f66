"""Empty inputs as errors of a data file; room in the store while a command runs, and after it was stopped."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import call, call as run, hardneg
from recipes.recipes import small_collection, small_tree, write_recipe

from hardneg.formats.runs import read_run
from hardneg.records import DataError
from hardneg.store import Store
from hardneg.training import loop

HEADER = "query-id\tcorpus-id\tscore\n"


@pytest.fixture
def folder(session: Path) -> Path:
    return small_collection(session / "data")


def refused(*arguments: object) -> str:
    result = call(*arguments)
    assert isinstance(result.exception, DataError) and result.exception.exit_code == 4, result.output
    assert "\n" not in str(result.exception)
    return str(result.exception)


def test_encode_and_index_an_empty_corpus(folder: Path, tiny_model: Path) -> None:
    (folder / "corpus.jsonl").write_text("")
    model = ["--model", tiny_model, "--device", "cpu"]
    for words in (["encode", *model], ["index", "build"]):
        told = refused(*words, "--dataset", f"beir:{folder}", "--output", "out")
        assert "the corpus has no documents" in told and not Path("out").exists()


@pytest.mark.parametrize(
    ("split", "qrels", "reason"),
    [
        *(("test", qrels, "split test has no queries") for qrels in ("", HEADER, "q999 0 d1 1\n")),
        ("tets", f"{HEADER}q1\td1\t1\n", "the dataset has no split 'tets'; did you mean 'test'?; available: "),
    ],
)
def test_search_an_empty_split(folder: Path, tiny_model: Path, split: str, qrels: str, reason: str) -> None:
    (folder / "qrels" / "test.tsv").write_text(qrels)
    model = ["--model", str(tiny_model), "--device", "cpu"]
    told = refused("search", "--dataset", f"beir:{folder}", *model, "--split", split, "--output", "run.trec.gz")
    assert reason in told and not Path("run.trec.gz").exists()
    assert [path.name for path in Path("store").glob("*/manifest.json")] == ["manifest.json"]  # the collection alone


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


@pytest.mark.parametrize("depth", [10**12, 10**20])
def test_a_list_is_as_long_as_the_corpus_at_most(folder: Path, tiny_model: Path, depth: int) -> None:
    words = ["--model", tiny_model, "--device", "cpu", "--depth", depth, "--output", "run.trec.gz"]
    hardneg("search", "--dataset", f"beir:{folder}", *words)
    documents = len((folder / "corpus.jsonl").read_text().splitlines())
    assert {len(ranked.doc_ids) for ranked in read_run(Path("run.trec.gz")).values()} == {documents}


@pytest.mark.parametrize(("form", "name"), [("hardneg", "n.arrow"), ("n-tuple", "n.jsonl"), ("triplet", "n.parquet")])
def test_mine_a_corpus_of_one_document(folder: Path, form: str, name: str) -> None:
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "one river"}\n')
    (folder / "qrels" / "train.tsv").write_text(f"{HEADER}q1\td1\t1\n")
    Path("run").write_text("q1 Q0 d1 1 1 x\n")
    words = ["--dataset", f"beir:{folder}", "--run", "run", "--form", form, "--count", "1", "--output", name]
    assert re.search(r"no rows to write \(1 .*negative", refused("mine", *words))
    assert not Path(name).exists()


STEPS = "--train-option max_steps=2 --train-option batch_size=4 --option miner.depth=5 --depth 10"
COMMANDS = {
    "train": f"train --dataset beir:data --model model {STEPS} --output out --device cpu",
    "recipe run": "recipe run small.yaml --until star --output out --device cpu",
}


@pytest.fixture
def own(session: Path, tiny_model: Path) -> Path:
    (session / "model").symlink_to(tiny_model)
    write_recipe(session / "small.yaml", small_tree(small_collection(session / "data"), Path("model")))
    return session


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_that_a_command_has_made_is_garbage(name: str, own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update, seen = loop.update, []

    def cleaned(*arguments: Any, **options: Any) -> Any:
        if not seen:
            seen.append(run("artifacts", "gc", "--delete", "--forget-unfinished").output)
            raise SystemExit(130)
        return update(*arguments, **options)

    monkeypatch.setattr(loop, "update", cleaned)
    command = COMMANDS[name]
    assert run(command).exit_code == 130
    assert f"running: hardneg {name} to {own / 'out'}, started" in seen[0] and "0 folders" in seen[0]
    made = {path.name for path in Store(own / "store").root.iterdir()}
    assert sum(name.endswith(".partial") for name in made) == 1
    told = run("artifacts", "gc", "--delete").output
    assert f"unfinished: hardneg {name} to {own / 'out'}, started" in told and "0 folders" in told
    done = run(command)
    assert done.exit_code == 0, done.output
    assert done.stderr.count("in the store") == 4
    assert "unfinished" not in (told := run("artifacts", "gc").output) and "0 folders" in told
    assert run(command).exit_code == 0


def test_stopped_runs_are_forgotten_when_that_is_asked_for(own: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: Any, **__: Any) -> None:
        raise SystemExit(130)

    monkeypatch.setattr(loop, "update", stop)
    assert run(COMMANDS["train"]).exit_code == 130
    told = run("artifacts", "gc", "--forget-unfinished").output
    assert "--delete removes its artifacts" in told and "5 folders" in told
    told = run("artifacts", "gc", "--forget-unfinished", "--delete").output
    assert "its artifacts are removed" in told and "5 folders" in told
    assert run("artifacts", "gc").output.startswith("0 folders")
