"""A line says each argument once: its command and its function have what the verbs' fields say."""

import inspect
from typing import get_origin

import pytest
from cli.commands import every_command
from typer.testing import CliRunner

import hardneg as hn
from hardneg.api.given_values import verb_field
from hardneg.cli.line_options import flag, parameter
from hardneg.cli.main import app
from hardneg.errors import UsageError
from hardneg.lines import stub
from hardneg.lines.base import REQUIRED, Of
from hardneg.lines.functions import function_of, signature
from hardneg.lines.installed import line_of, line_targets

LINES = {name: line_of(name) for name in line_targets()}
WORDS = {"index": "index build"}


@pytest.mark.parametrize("name", LINES)
def test_the_command_and_the_function_have_what_the_fields_say(name):
    line, command = LINES[name], {" ".join(words): command for words, command in every_command().items()}
    options = {option.opts[0]: option for option in command[WORDS.get(name, name)].params}
    asked, fields = signature(line).parameters, {each.called: each for each in line.arguments if isinstance(each, Of)}
    assert fields
    for called, of in fields.items():
        argument, info = line.resolved()[called], verb_field(of.path)
        assert argument.help == info.description and argument.help.endswith("."), called
        wanted = info.get_default(call_default_factory=True)
        if not (of.required or "default" in of.more or info.is_required()):
            assert argument.default == wanted
        if "function" in argument.shown_in:
            missing = inspect.Parameter.empty if argument.default is REQUIRED else argument.default
            assert asked[called].default == (None if argument.of_dataset else missing)
        if "command" in argument.shown_in:
            option = options[flag(argument)]
            assert option.help == argument.help
            assert option.required == (argument.default is REQUIRED)
            if not option.required and get_origin(argument.form) is not dict and not option.multiple:
                assert option.default == argument.default
            if argument.least is not None:
                assert parameter(argument).annotation.__metadata__[0].min == argument.least


def test_the_stub_is_what_the_lines_make():
    assert stub.PATH.read_text("utf-8") == stub.text(), "run `python -m hardneg.lines.stub`"


@pytest.mark.parametrize("name", LINES)
def test_an_editor_sees_every_argument(name):
    function = function_of(LINES[name])
    parameters = inspect.signature(function).parameters.values()
    assert not [each for each in parameters if each.kind in (each.VAR_KEYWORD, each.VAR_POSITIONAL)]
    assert all(f"\n    {each.name}: " in inspect.getdoc(function) for each in parameters)


def test_an_error_calls_an_argument_as_its_caller_does(tmp_path):
    runs = {"one": {"q": {"d": 1.0}}, "two": {"q": {"e": 1.0}}}
    with pytest.raises(UsageError, match=r"^fuse: tune_runs needs qrels, the judgements"):
        hn.fuse(runs, tune_runs=runs, store=tmp_path / "store")
    for name in ("one", "two"):
        (tmp_path / name).write_text("q Q0 d 1 1 x\n")
    given = [f"--run={tmp_path / name}" for name in runs]
    tuning = [f"--tune-run={tmp_path / name}" for name in runs]
    told = CliRunner().invoke(app, ["fuse", *given, *tuning, "--output", str(tmp_path / "x.trec.gz")])
    assert str(told.exception) == "fuse: --tune-run needs --qrels, the judgements of its queries"
