"""Each help has an example that parses."""

import inspect
import re
import shlex

import pytest
from cli.commands import every_command
from command_line import hardneg

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
