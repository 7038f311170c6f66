import os

import pytest
from typer.testing import CliRunner

from hardneg.cli.console import print_table, stdout_console
from hardneg.cli.main import app
from hardneg.report.table import Table

RECIPE = "rocketqa-passage"


def plan(**env):
    result = CliRunner().invoke(
        app, ["recipe", "plan", RECIPE], env={"COLUMNS": None, "XDG_CACHE_HOME": os.devnull, **env}
    )
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_what_is_piped_is_one_whole_line_a_step():
    lines = plan()
    step = next(line for line in lines if line.startswith("cross-encoder-lists"))
    assert "train-reranker" in step and "steps" in step and step.endswith(("s", "min", "h"))


def test_a_narrow_terminal_gets_one_line_a_step():
    lines = plan(COLUMNS="80")
    assert len(lines) == len(plan()) and max(map(len, lines[1:-1])) <= 80
    assert any(line.startswith("cross-encoder-lists  train-") and "…" in line for line in lines)


@pytest.mark.parametrize(("columns", "width"), [(None, 1000), ("120", 120)])
def test_columns_decide_where_they_are_given(monkeypatch, columns, width):
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns:
        monkeypatch.setenv("COLUMNS", columns)
    assert stdout_console().width == width


def test_brackets_are_printed_as_they_stand(capsys):
    print_table(stdout_console(), Table(["run", "[bold]"], [["[red]a", "[1]"]]))
    assert capsys.readouterr().out.split() == ["run", "[bold]", "[red]a", "[1]"]
