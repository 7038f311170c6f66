"""Escaped output, tables as wide as the terminal, and completion for the Tab key."""

import json
import os
import sys
import typing

import pytest
from cli.commands import every_command
from command_line import hardneg
from processes import loaded
from typer.testing import CliRunner

from hardneg.cli.console import Bars, print_table, say, say_json, stdout_console, visible
from hardneg.cli.main import app, main
from hardneg.recipes import named_recipes
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
    Bars().note(BAD)
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


COMPLETED = {
    *("--backend", "--candidates", "--dataset", "--device", "--force", "--form", "--from", "--loss", "--metric"),
    *("--metrics", "--miner", "--preset", "--recipe", "--reranker", "--until"),
}


def complete(line):
    """What bash is offered at the end of a line."""
    words = line.split(" ")
    env = {"_HARDNEG_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    result = CliRunner().invoke(app, [], prog_name="hardneg", env=env)
    assert result.exit_code == 0 and not result.stderr, result.output
    return result.stdout.split()


def test_recipes():
    assert complete("hardneg recipe run star-pass") == ["star-passage"]
    assert set(complete("hardneg recipe plan ")) >= set(named_recipes())
    assert complete("hardneg artifacts why star --recipe gis") == ["gist"]


def test_presets_and_stages_are_those_of_the_recipe_on_the_line():
    assert sorted(complete("hardneg recipe run star-passage --preset ")) == ["demo", "paper", "small"]
    assert complete("hardneg recipe run star-passage -p pa") == ["paper"]
    assert complete("hardneg recipe run star-passage --until star-") == ["star-index", "star-test"]
    assert "warm-up" not in complete("hardneg recipe run star-passage --force ")
    assert "warm-up" in complete("hardneg recipe run star-passage --preset paper --force ")
    assert complete("hardneg artifacts why --recipe ance-passage anc")[0].startswith("ance")


def test_a_recipe_file_is_read_as_one_that_is_shipped(tmp_path):
    file = tmp_path / "own.yaml"
    file.write_text("extends: star-passage\nstages:\n  own-stage: {stage: mine}\npresets: {mine: {}}\n")
    assert complete(f"hardneg recipe run {file} --until own") == ["own-stage"]
    assert complete("hardneg recipe run nothing --until ") == complete("hardneg recipe run --until ") == []
    assert complete("hardneg evaluate --metrics map --metrics ndcg@10") == ["ndcg@10", "ndcg@100", "ndcg@1000"]
    file.write_text("stages: [")
    assert complete(f"hardneg recipe run {file} --until ") == []


def test_plugins():
    assert complete("hardneg plugins show los") == ["loss"]
    assert "ranknet" in complete("hardneg plugins show loss ")
    assert complete("hardneg plugins show miners top") == ["topk"]
    assert complete("hardneg plugins show nothing ") == []
    assert complete("hardneg train --miner pos-") == ["pos-margin", "pos-percent"]
    assert "beir" in complete("hardneg data show ")
    assert complete("hardneg search --backend bm") == ["bm25"]


def test_every_option_that_names_such_a_thing_is_completed():
    seen = set()
    for words, command in every_command().items():
        for option in command.params:
            if wanted := COMPLETED.intersection(option.opts):
                seen |= wanted
                of_choices = typing.get_origin(option.type_descriptor.annotation) is typing.Literal
                assert of_choices or option._custom_shell_complete is not None, (words, option.opts)
    assert seen == COMPLETED


def test_completing_imports_nothing_heavy():
    program = "import os; os.environ.update({}); from hardneg.cli.main import app; app(prog_name='hardneg')"
    for line in ("recipe run star-passage --until ", "train --loss ", "evaluate --metrics ", "data show "):
        words = f"hardneg {line}"
        assert complete(words)
        env = {"_HARDNEG_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
        assert loaded(program.format(env), "torch transformers jnius ranx") == set()
