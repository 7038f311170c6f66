import json
import re
from pathlib import Path

import pytest
from command_line import call, hardneg
from recipes.questions import questions
from recipes.recipes import small_collection

from hardneg.functions.given import run_labels
from hardneg.records import HardnegError

QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 c 1\n"
FIRST = "q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\nq2 Q0 z 1 2.0 x\nq2 Q0 a 2 1.0 x\nq9 Q0 a 1 1.0 x\n"
SECOND = "q1 Q0 a 1 2.0 y\nq2 Q0 a 1 1.0 y\nq3 Q0 c 1 1.0 y\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "qrels.txt").write_text(QRELS)
    (tmp_path / "first.trec").write_text(FIRST)
    (tmp_path / "second.trec").write_text(SECOND)
    return tmp_path


def evaluate(files: Path, *words: str, runs: tuple[str, ...] = ("first.trec",)) -> str:
    given = [word for run in runs for word in ("--run", files / run)]
    return hardneg("evaluate", "--qrels", files / "qrels.txt", *given, *words).stdout


def test_json_is_exactly_the_means(files: Path) -> None:
    found = json.loads(evaluate(files, "--metrics", "mrr@10,recall@100", "--json"))
    assert found == {"first.trec": {"mrr@10": pytest.approx(0.5), "recall@100": pytest.approx(2 / 3)}}


@pytest.mark.parametrize(
    "words",
    [
        "--metrics mrr@10 --metrics map --metrics precision@1 --json",
        "--metrics mrr@10,map,precision@1 --json",
        "--json --metric mrr@10,map --metrics precision@1",
    ],
)
def test_ways_to_give_several_metrics(files: Path, words: str) -> None:
    found = json.loads(evaluate(files, *words.split()))
    assert list(found["first.trec"]) == ["mrr@10", "map", "precision@1"]


def test_json_with_a_baseline_has_the_tests(files: Path) -> None:
    runs = ("first.trec", "second.trec")
    found = json.loads(evaluate(files, "--metrics", "mrr", "--baseline", "first.trec", "--json", runs=runs))
    assert [(each["system"], each["difference"]) for each in found["comparisons"]] == [("second.trec", 0.5)]
    assert found["metrics"] == {"first.trec": {"mrr": 0.5}, "second.trec": {"mrr": 1.0}}


def test_per_query_lines(files: Path) -> None:
    assert "first.trec\tmrr\tq2\t0.5000\n" in evaluate(files, "--metrics", "mrr", "--per-query")


def test_tables(files: Path) -> None:
    text = evaluate(files, "--metrics", "mrr", runs=("first.trec", "second.trec"))
    assert all(part in text for part in ("first.trec", "1.0000", "Means over 3 queries.", "+0.5000"))
    assert "Paired, two-sided" in text and "Paired" not in evaluate(files, "--metrics", "mrr")


def test_answers_come_from_a_dataset(tmp_path: Path) -> None:
    run = tmp_path / "own.trec"
    lists = {"q46": ["d46", "d0"], "q47": ["d0", "d47"], "q48": ["d0", "d1"]}
    run.write_text("".join(f"{q} Q0 {d} 1 {9 - i} x\n" for q, ids in lists.items() for i, d in enumerate(ids)))
    place = ["--dataset", f"beir:{questions(tmp_path / 'data')}", "--store", tmp_path / "store"]
    words = ["evaluate", "--run", run, "--metrics", "answer@1,mrr@10,answer@2", "--json", "--per-query"]
    found = json.loads(hardneg(*words, *place).stdout)["per_query"]["own.trec"]
    assert list(found) == ["answer@1", "mrr@10", "answer@2"] and len(found["answer@1"]) == len(found["mrr@10"]) == 14
    assert [found["answer@1"][name] for name in lists] == [1.0, 0.0, 0.0]
    assert [found["answer@2"][name] for name in lists] == [1.0, 1.0, 0.0]
    assert sum(found["mrr@10"].values()) == 1.5


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--metrics answer@5", "answer@5 needs a dataset with answers: give --dataset and --split"),
        ("--metrics mrr@10", "no judgements: give --qrels, or --dataset"),
        ("--metrics answer@5 --dataset beir:data", "split test has no answers: take a dataset"),
        ("--metrics answer", "it needs a cutoff and the answers of a dataset"),
    ],
)
def test_what_answers_need(files: Path, words: str, message: str, session: Path) -> None:
    small_collection(session / "data")
    error = call("evaluate", "--run", files / "first.trec", *words.split()).exception
    assert isinstance(error, HardnegError) and re.search(message, str(error))


def test_labels_tell_runs_apart() -> None:
    paths = [Path("a/x/run.trec"), Path("a/y/run.trec"), Path("b/y/run.trec"), Path("other.trec")]
    assert list(run_labels(paths).values()) == ["x/run.trec", "a/y/run.trec", "b/y/run.trec", "other.trec"]
