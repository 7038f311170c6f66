"""What could steer a terminal is printed as an escape, JSON as it was written, and tables as wide as a terminal."""

import json
import os
import sys

import pytest
from command_line import hardneg
from typer.testing import CliRunner

from hardneg.cli.console import Bars, print_table, say, say_json, stderr_console, stdout_console, visible
from hardneg.cli.main import app, main
from hardneg.report.table import Table

BAD = "\x1b]0;title\x07\x9b31m\u202egpj.exe\r\x00\udc80"
GOOD = r"\x1b]0;title\x07\x9b31m\u202egpj.exe\r\x00\udc80"


def test_only_what_steers_is_escaped():
    assert visible(BAD) == GOOD
    harmless = "tab\t, newline\n, Ελλάδα, עברית, 日本語 🙂 [bold] \\x1b"
    assert visible(harmless) == harmless


def test_lines_tables_and_notes_are_escaped(capsys):
    say(BAD)
    say(BAD, err=True)
    print_table(stdout_console(), Table([BAD], [[BAD], ["\x1b[31m"]], words=1))
    stdout_console().print(BAD)
    Bars(stderr_console()).note(BAD)
    told = capsys.readouterr()
    assert told.out.count(GOOD) == 4 and told.err.count(GOOD) == 2
    assert r"\x1b[31m " in told.out
    assert not set(told.out + told.err) & set(BAD) - set(GOOD)


def test_json_is_what_it_was(capsys):
    content = {"text": BAD, "more": ["é", "\x9b", "日本"]}
    say_json(content)
    out = capsys.readouterr().out
    assert json.loads(out) == content and "é" in out
    assert not set(out) & set(BAD) - set(GOOD)


def test_an_error_is_escaped(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["hardneg", "recipe", "show", "\x1b[2Jnothing"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert r"\x1b[2Jnothing" in err and "\x1b" not in err


@pytest.fixture
def files(tmp_path):
    texts = {"d1": "plain words", "d2": "\x1b[31mred\x1b[0m and \u202eturned"}
    rows = [{"_id": name, "title": "", "text": text} for name, text in texts.items()]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "what\x07 is"}) + "\n")
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
    return tmp_path


def test_a_dataset_is_shown_escaped(files):
    result = hardneg("data", "show", f"beir:{files}", "--store", files / "store")
    assert r"\x1b[31mred\x1b[0m and \u202eturned" in result.stdout and r"what\x07 is" in result.stdout
    assert "\x1b" not in result.output and "\u202e" not in result.output


RECIPE = "rocketqa-passage"


def plan(**env):
    result = CliRunner().invoke(
        app, ["recipe", "plan", RECIPE], env={"COLUMNS": None, "XDG_CACHE_HOME": os.devnull, **env}
    )
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_a_narrow_terminal_gets_one_line_a_step():
    lines = plan(COLUMNS="70")
    assert len(lines) == len(plan()) and max(map(len, lines[1:-1])) <= 70
    assert any(line.startswith("cross-encoder-lists  trai…") for line in lines)
