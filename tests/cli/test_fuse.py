import command_line
import pytest

from hardneg.formats.runs import read_run, write_run
from tests.run_lists import doc_lists, falling


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


def call(files, *words):
    runs = ["--run", files / "dense.trec", "--run", files / "bm25.trec", "--output", files / "made.trec.gz"]
    return command_line.call("fuse", *runs, *words)


def tuning(files, qrels="dev.txt"):
    return ["--tune-run", files / "dense-dev.trec", "--tune-run", files / "bm25-dev.trec", "--qrels", files / qrels]


def lists(files):
    run = read_run(files / "made.trec.gz")
    return dict(zip(list(run), map("".join, doc_lists(run)), strict=True))


def test_runs_are_zipped_in_the_order_given(files):
    result = call(files, "--method", "zip", "--depth", 5)
    assert result.exit_code == 0, (result.output, result.exception)
    assert lists(files) == {"q1": "acbef", "q2": "xy"}
    assert "2 queries, 7 documents" in result.stdout and "queries that bm25.trec lacks: 1" in result.stdout


def test_weights_are_tuned_on_other_queries(files):
    result = call(files, "--method", "weighted-sum", "--metric", "mrr@10", *tuning(files))
    assert result.exit_code == 0, (result.output, result.exception)
    assert "tuned: mrr@10 1.0000, best of 11: dense.trec 0, bm25.trec 1" in result.stdout
    assert lists(files)["q1"].startswith("cef")
    grid = ["--grid", "bm25.trec=0.5,2,3"]
    result = call(files, "--method", "weighted-sum", "--metric", "mrr@10", *grid, *tuning(files))
    assert "best of 3: dense.trec 1, bm25.trec 2" in result.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--method wsun", "(got 'wsun'); did you mean 'wsum'?"),
        ("--weight bm25=1", "--weight: no run has the label 'bm25'; did you mean 'bm25.trec'?"),
        ("--weight bm25.trec=x", "bm25.trec=x: must be NAME=NUMBER"),
        ("--method zip --norm max", "norm: zip takes scores as they are"),
        ("--grid bm25.trec=1", "--grid and --qrels are for tuning"),
        ("--qrels qrels.txt", "--grid and --qrels are for tuning"),
    ],
)
def test_mistakes_are_told(files, words, told):
    assert told in str(call(files, *words.split()).exception)
