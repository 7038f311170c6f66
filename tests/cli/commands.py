"""Every command of the command line, found by walking its groups; those of packages apart."""

import typer

from hardneg.cli.main import app
from hardneg.registry import entry_points


def package_commands():
    """Those of packages that are installed."""
    group = typer.main.get_command(app)
    found = {}
    for words in (point.name.split() for point in entry_points("apps")):
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
    names = command.list_commands(None) if words == ("analyze",) else command.commands
    for name in names:
        inner = command.get_command(None, name)
        if not inner.hidden:
            yield from _under(inner, (*words, name))
