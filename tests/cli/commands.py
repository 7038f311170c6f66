"""Every command of the command line, found by walking its groups; those of packages apart."""

import typer

from hardneg.cli import packages
from hardneg.cli.main import app


def package_commands():
    """Those of packages that are installed."""
    group = typer.main.get_command(app)
    found = {}
    for words in map(str.split, packages._points()):
        within = group if words[1:] == [] else group.get_command(None, words[0])
        found[(*words,)] = within.get_command(None, words[-1])
    return found


def every_command():
    """Each command with the words that call it, `["recipe", "plan"]`, but those by names that they had."""
    return dict(_under(typer.main.get_command(app), ()))


def _under(command, words):
    if not hasattr(command, "commands"):
        yield words, command
        return
    for name, inner in command.commands.items():
        if inner.hidden:
            continue
        yield from _under(inner, (*words, name))
