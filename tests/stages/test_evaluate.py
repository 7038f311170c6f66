"""Stage `evaluate` on DPR's files, which have answers but no judgements for the test questions."""

import json
from pathlib import Path

import pytest

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import write_collection
from hardneg.formats.runs import write_run
from hardneg.records.errors import UsageError
from hardneg.runtime.progress import Silent
from hardneg.stages.base import ArtifactInput, StageContext
from hardneg.stages.evaluate import Evaluate
from tests.run_lists import falling

PASSAGES = {"1": ("London", "Londres is large"), "2": ("Paris", "Paris is not"), "3": ("Tokyo", "the capital of Japan")}
ALIASES = ["London", "Londres", "Llundain", "The City of London"]
QUESTIONS = [("what is the capital of England", ALIASES), ("what is the capital of Japan", ["Tokyo", "東京"])]


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    source = tmp_path / "trivia"
    source.mkdir()
    (source / "qrels").mkdir()
    rows = [{"_id": name, "title": title, "text": text} for name, (title, text) in PASSAGES.items()]
    asked = [
        {"_id": f"{split}-{number}", "text": text, "answers": answers}
        for split in ("train", "test")
        for number, (text, answers) in enumerate(QUESTIONS)
    ]
    for name, lines in {"corpus": rows, "queries": asked}.items():
        (source / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (source / "qrels" / "train.tsv").write_text("train-0\t1\t1\ntrain-1\t2\t0\n")
    (source / "qrels" / "test.tsv").write_text("test-0\t2\t0\ntest-1\t2\t0\n")
    facts = write_collection(Beir(str(source)).load(), tmp_path / "stored", Silent())
    (tmp_path / "stored" / "qrels" / "test.txt").write_text("")  # a split without judgements
    assert facts["splits"]["train"]["with_answers"] == facts["splits"]["test"]["with_answers"] == 2
    return tmp_path / "stored"


def scores(collection: Path, folder: Path, split: str, **more: object) -> tuple[dict[str, object], dict[str, object]]:
    made = folder / "made"
    made.mkdir()
    lists = {f"{split}-0": ["2", "1", "3"], f"{split}-1": ["3", "2", "1"]}
    write_run(folder / "run.trec.gz", falling(lists).items())
    spec = Evaluate(stage="evaluate", runs={"row": "run"}, split=split, **more)
    inputs = {"dataset": ArtifactInput("dataset", "", collection), "runs.row": ArtifactInput("run", "", folder)}
    facts = spec.make(StageContext("scores", spec, made, inputs, {}, Silent()))
    return facts, json.loads((made / "metrics.json").read_text())["per_query"]["row"]


def test_any_alias_will_do_and_titles_are_not_looked_at(collection: Path, tmp_path: Path) -> None:
    facts, found = scores(collection, tmp_path, "test", metrics=("answer@1", "answer@2", "answer@100"))
    assert found == {
        "answer@1": {"test-0": 0.0, "test-1": 0.0},
        "answer@2": {"test-0": 1.0, "test-1": 0.0},
        "answer@100": {"test-0": 1.0, "test-1": 0.0},
    }
    assert facts == {"queries": 2, "passages": 3, "systems": 1}


def test_answers_as_patterns(collection: Path, tmp_path: Path) -> None:
    facts, found = scores(collection, tmp_path, "test", metrics=("answer@2",), answer_match="regex")
    assert found == {"answer@2": {"test-0": 1.0, "test-1": 0.0}} and facts["queries"] == 2


def test_judgements_are_asked_for_where_a_metric_needs_them(collection: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the qrels hold no query"):
        scores(collection, tmp_path, "test", metrics=("answer@2", "mrr@10"))
