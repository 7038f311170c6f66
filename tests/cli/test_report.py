"""`hardneg report` on run files."""

import pytest
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.errors import UsageError

QRELS = "q1 0 a 2\nq1 0 b 1\nq2 0 a 1\nq3 0 c 1\n"
FIRST = "q1 Q0 b 1 2.0 x\nq1 Q0 a 2 1.0 x\nq2 Q0 z 1 2.0 x\nq2 Q0 a 2 1.0 x\nq9 Q0 a 1 1.0 x\n"
SECOND = "q1 Q0 a 1 2.0 y\nq2 Q0 a 1 1.0 y\nq3 Q0 c 1 1.0 y\n"


@pytest.fixture
def report(tmp_path, monkeypatch):
    """Runs the command on two runs and gives the two pages."""
    monkeypatch.chdir(tmp_path)
    for name, text in {"qrels.txt": QRELS, "first.trec": FIRST, "second.trec": SECOND}.items():
        (tmp_path / name).write_text(text)

    def run(*words):
        command = ["report", "--qrels", "qrels.txt", "--run", "first.trec", "--run", "second.trec", "--output", "out"]
        result = CliRunner().invoke(app, [*command, *words])
        if isinstance(result.exception, UsageError):
            raise result.exception
        assert result.exit_code == 0, result.output
        assert result.stdout.split() == ["out/report.md", "out/report.html"]
        return tuple((tmp_path / name).read_text() for name in result.stdout.split())

    return run


def test_means_tests_and_what_was_left_out(report):
    markdown, html = report("--metrics", "mrr@10", "--title", "Two <runs>")
    assert "# Two \\<runs\\>" in markdown and "<h1>Two &lt;runs&gt;</h1>" in html
    assert "| first.trec | 0.5000 " in markdown and "| second.trec | **1.0000** " in markdown
    assert "| mrr@10 | second.trec | first.trec | +0.5000 |" in markdown
    assert "| evaluated on | 3 queries of qrels.txt |" in markdown
    for note in ("1 judged query is not in the run and scores 0", "1 query has no judgement and is left out"):
        assert f"first.trec: {note}" in markdown and note in html


def test_the_baseline_may_be_named_and_the_level_raised(report):
    markdown, _ = report("--metrics", "mrr@10", "--baseline", "second.trec", "--relevance-level", "2")
    assert "| mrr@10 | first.trec | second.trec | −0.1667 |" in markdown
    assert "| relevant from grade | 2 |" in markdown
    with pytest.raises(UsageError, match="baseline third is not among the runs"):
        report("--baseline", "third")
