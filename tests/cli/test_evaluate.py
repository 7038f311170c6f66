"""`hardneg evaluate` and `hardneg report` on run files."""

import json
import re
from pathlib import Path

import pytest
from command_line import call, hardneg
from recipes.questions import questions
from recipes.recipes import small_collection

from hardneg.functions.given import run_labels
from hardneg.records import DataError, HardnegError, UsageError

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


@pytest.mark.parametrize(
    "words",
    [
        "--metrics mrr@10 --metrics recall@100 --metrics precision@1 --json",
        "--metrics mrr@10,recall@100,precision@1 --json",
        "--json --metric mrr@10,recall@100 --metrics precision@1",
    ],
)
def test_json_is_exactly_the_means_of_several_metrics(files: Path, words: str) -> None:
    found = json.loads(evaluate(files, *words.split()))
    means = {"mrr@10": pytest.approx(0.5), "recall@100": pytest.approx(2 / 3), "precision@1": pytest.approx(1 / 3)}
    assert found == {"first.trec": means} and list(found["first.trec"]) == list(means)


def test_json_with_a_baseline_has_the_tests(files: Path) -> None:
    runs = ("first.trec", "second.trec")
    found = json.loads(evaluate(files, "--metrics", "mrr", "--baseline", "first.trec", "--json", runs=runs))
    assert [(each["system"], each["difference"]) for each in found["comparisons"]] == [("second.trec", 0.5)]
    assert found["metrics"] == {"first.trec": {"mrr": 0.5}, "second.trec": {"mrr": 1.0}}


def test_tables(files: Path) -> None:
    assert "first.trec\tmrr\tq2\t0.5000\n" in evaluate(files, "--metrics", "mrr", "--per-query")
    text = evaluate(files, "--metrics", "mrr", runs=("first.trec", "second.trec"))
    assert all(part in text for part in ("first.trec", "1.0000", "Means over 3 queries.", "+0.5000"))
    assert "Paired two-sided tests" in text and "Paired" not in evaluate(files, "--metrics", "mrr")


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
        ("--metrics answer@5", "answer@5 needs a dataset with answers; give --dataset and --split"),
        ("--metrics mrr@10", "no judgements; give --qrels, or --dataset"),
        ("--metrics answer@5 --dataset beir:data", "split test has no answers; use a dataset"),
        ("--metrics answer", "only for recipes whose dataset has answers"),
    ],
)
def test_what_answers_need(files: Path, words: str, message: str, session: Path) -> None:
    small_collection(session / "data")
    error = call("evaluate", "--run", files / "first.trec", *words.split()).exception
    assert isinstance(error, HardnegError) and re.search(message, str(error))


def test_judgements_of_other_queries_are_refused(files: Path) -> None:
    (files / "other.trec").write_text("q8 Q0 a 1 2.0 x\nq9 Q0 a 1 1.0 x\n")
    with pytest.raises(DataError, match=r"query ids q8, q9 in \S+/other.trec, but q1, q2, q3 in \S+/qrels.txt\); give"):
        evaluate(files, "--metrics", "mrr", runs=("first.trec", "other.trec"))


@pytest.mark.parametrize("words", ["", "FOLDER --output new", "FOLDER --run first.trec", "--run first.trec"])
def test_a_report_is_of_a_run_folder_or_of_runs(files: Path, words: str) -> None:
    error = call("report", "--qrels", files / "qrels.txt", *words.replace("FOLDER", str(files)).split()).exception
    assert isinstance(error, UsageError) and "give a RUNFOLDER alone, or --run and, for pages, --output" in str(error)


def test_labels_tell_runs_apart() -> None:
    paths = [Path("a/x/run.trec"), Path("a/y/run.trec"), Path("b/y/run.trec"), Path("other.trec")]
    assert list(run_labels(paths).values()) == ["x/run.trec", "a/y/run.trec", "b/y/run.trec", "other.trec"]


@pytest.fixture
def report(session):
    """Runs the command on two runs and gives the two pages."""
    for name, text in {"qrels.txt": QRELS, "first.trec": FIRST, "second.trec": SECOND}.items():
        (session / name).write_text(text)

    def run(*words):
        command = ["report", "--qrels", "qrels.txt", "--run", "first.trec", "--run", "second.trec", "--output", "out"]
        names = hardneg(*command, *words).stdout.split()
        assert names == ["out/report.md", "out/report.html", "out/queries.tsv"]
        return tuple((session / name).read_text() for name in names)

    return run


def test_means_tests_and_what_was_left_out(report):
    markdown, html, _ = report("--metrics", "mrr@10", "--title", "Two <runs>")
    assert "# Two \\<runs\\>" in markdown and "<h1>Two &lt;runs&gt;</h1>" in html
    assert "| first.trec | 0.5000 " in markdown and "| second.trec | **1.0000** " in markdown
    assert "| mrr@10 | second.trec | first.trec | undecided | +0.5000 " in markdown
    assert "| evaluated on | 3 queries of qrels.txt |" in markdown
    for note in ("1 judged query is not in the run and scores 0", "1 query has no judgement and is ignored"):
        assert f"first.trec: {note}" in markdown and note in html


def test_each_query_has_its_difference_and_its_passages(report):
    _, html, table = report("--metrics", "mrr@10,recall@100")
    assert table.splitlines() == [
        "query_id\tmrr@10 first.trec\tmrr@10 second.trec\trecall@100 first.trec\trecall@100 second.trec\tdifference",
        "q3\t0.000000\t1.000000\t0.000000\t1.000000\t1.000000",
        "q2\t0.500000\t1.000000\t1.000000\t1.000000\t0.500000",
        "q1\t1.000000\t1.000000\t1.000000\t0.500000\t0.000000",
    ]
    told = '<th scope="row" class="word">{}<span class="ends">relevance {}; first.trec {}, second.trec {}</span></th>'
    assert told.format("a", 2, 2, 1) in html and told.format("z", "–", 1, "–") in html


def test_a_dataset_gives_the_texts_and_the_judgements(session):
    small_collection(session / "data")
    (session / "run.trec").write_text("q46 Q0 d5 1 2.0 x\nq46 Q0 d46 2 1.0 x\n")
    command = ["report", "--dataset", "beir:data", "--run", "run.trec", "--metrics", "mrr@10", "--output"]
    hardneg(*command, "out")
    page = (session / "out/report.html").read_text()
    assert "<summary>heavy copper</summary>" in page and "the bright river was seen again near" in page
    assert (session / "out/queries.tsv").read_text().splitlines()[0] == "query_id\tmrr@10 run.trec\ttext"
    assert "14 queries of split test of beir:data" in page
    assert "judged queries are not in the run and score 0" in page
    refused = call(*command, "data").exception
    assert isinstance(refused, UsageError) and "which is an input" in str(refused)
