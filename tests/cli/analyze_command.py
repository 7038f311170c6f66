"""`hardneg analyze`, called."""

import json

from typer.testing import CliRunner

from hardneg.cli.main import app


def call(*words):
    return CliRunner().invoke(app, ["analyze", *map(str, words)], env={"COLUMNS": "200"})


def printed(*words):
    result = call(*words, "--json")
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)
