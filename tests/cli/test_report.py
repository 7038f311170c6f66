"""`hardneg report` on run files."""

import pytest
from command_line import call, hardneg
from recipes.recipes import small_collection

from hardneg.records import UsageError

QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 c 1\n"
FIRST = "q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\nq2 Q0 z 1 2.0 x\nq2 Q0 a 2 1.0 x\nq9 Q0 a 1 1.0 x\n"
SECOND = "q1 Q0 a 1 2.0 y\nq2 Q0 a 1 1.0 y\nq3 Q0 c 1 1.0 y\n"


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
    for note in ("1 judged query is not in the run and scores 0", "1 query has no judgement and is left out"):
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
    assert isinstance(refused, UsageError) and "which is read here" in str(refused)
