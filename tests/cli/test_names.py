"""Each option has one name and one type in all commands, and each help an example that parses."""

import inspect
import re
import shlex
import types
import typing
from pathlib import Path

import pytest
from cli.commands import every_command
from command_line import hardneg

OTHERWISE = {
    ("analyze query-wins", "--baseline"): Path,  # the other run itself, where elsewhere it is one of those given
    ("analyze overlap-curve", "--run"): str,  # STEP=PATH
    ("analyze overlap-curve", "--negatives"): str,  # STEP=PATH
    ("fuse", "--weight"): str,  # LABEL=NUMBER; those of average go by the order of its models
    ("start", "--run"): bool,  # whether to run the recipe that it writes
}


def options():
    for words, command in every_command().items():
        hints = typing.get_type_hints(inspect.unwrap(command.callback))
        for option in command.params:
            if option.param_type_name == "option":
                yield " ".join(words), option.opts, inner_type(hints[option.name])


def inner_type(hint):
    for part in typing.get_args(hint) if not isinstance(hint, type) or typing.get_args(hint) else ():
        if part is not types.NoneType:
            return inner_type(part) if typing.get_origin(hint) is not typing.Literal else type(part)
    return hint


def test_an_option_takes_the_same_in_all_commands():
    kinds = {}
    for command, opts, kind in options():
        if (command, opts[0]) not in OTHERWISE:
            kinds.setdefault(opts[0], {}).setdefault(kind, []).append(command)
    assert len(kinds) > 60
    assert {name: taken for name, taken in kinds.items() if len(taken) > 1} == {}
    assert {(c, o[0]): kind for c, o, kind in options() if (c, o[0]) in OTHERWISE} == OTHERWISE


COMMANDS = every_command()


def examples(words):
    lines = inspect.getdoc(inspect.unwrap(COMMANDS[words].callback))
    return [shlex.split(each) for each in re.findall(r"^Example: (.+?)(?: > \S+)?$", lines, re.MULTILINE)]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_each_help_has_an_example_that_parses(words):
    found = examples(words)
    assert found and f"Example: hardneg {' '.join(words)}" in hardneg(*words, "--help").output
    for program, *arguments in found:
        assert program == "hardneg" and tuple(arguments[: len(words)]) == words
        context = COMMANDS[words].make_context(" ".join(words), arguments[len(words) :])
        assert context.params  # read, callbacks included, and not run
