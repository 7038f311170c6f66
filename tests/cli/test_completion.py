"""What the Tab key completes, as the shells ask for it."""

import typing

from cli.commands import every_command
from processes import loaded
from typer.testing import CliRunner

from hardneg.cli.main import app
from hardneg.recipes import named_recipes

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
