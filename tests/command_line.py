"""The command line, called in this process."""

from click.testing import Result
from typer.testing import CliRunner

from hardneg.cli.main import app


def call(*words: object) -> Result:
    """How a command ended, whatever it raised; its lines may have 200 characters."""
    return CliRunner().invoke(app, [*map(str, words)], env={"COLUMNS": "200"})


def hardneg(*words: object) -> Result:
    """How a command ended that is to end well: what it raises is raised here."""
    result = call(*words)
    if result.exception and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result
