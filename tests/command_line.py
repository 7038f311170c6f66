"""The command line, called in this process."""

from click.testing import Result
from typer.testing import CliRunner

from hardneg.cli.main import app


def call(line: str, *words: object) -> Result:
    """How a command ended, whatever it raised; `line` is split at its spaces, and each of `words` is one."""
    return CliRunner().invoke(app, [*line.split(), *map(str, words)], env={"COLUMNS": "200"})


def hardneg(line: str, *words: object) -> Result:
    """How a command ended that is to end well: what it raises is raised here."""
    result = call(line, *words)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result
