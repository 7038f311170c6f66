"""`hardneg pyserini`: the lines of Python by which Pyserini opens an index."""

from pathlib import Path

import typer

from hardneg.cli import options
from hardneg.cli.console import say
from hardneg.cli.planned_work import plugin_options
from hardneg.records.errors import HardnegError, UsageError


def pyserini(
    folder: Path = typer.Argument(help="A run folder, or the folder of an index.", show_default=False),
    model: str | None = typer.Option(None, "--model", help="The model that encoded the index, if it is of no run."),
    option: list[str] = typer.Option(
        [], "--option", metavar="KEY=VALUE", help="An option that index was built with, such as scale=51.2 or k1=1.2."
    ),
    query_length: int | None = typer.Option(None, min=1, help="How many tokens of a query the model reads."),
    query_prompt: str | None = typer.Option(None, help="The prompt before each query."),
    check: bool = typer.Option(False, "--check", help="Also run the lines, and report the result."),
    store: Path | None = options.STORE,
) -> None:
    """Print the Python lines that open each index of a run folder, or one index folder, in Pyserini.

    Example: hardneg pyserini runs/star-passage --check

    Example: hardneg pyserini lucene-impacts --model trained --option scale=51.2
    """
    from hardneg.doors.pyserini.openings import check as run_lines
    from hardneg.doors.pyserini.openings import openings, with_java
    from hardneg.encoders.spec import ModelSpec

    if model is None and (query_length is not None or query_prompt is not None):
        raise UsageError("pyserini: --query-length and --query-prompt say how a model is used: give --model")
    spec = None if model is None else ModelSpec(model, query_length=query_length, query_prompt=query_prompt)
    failed = []
    for name, text in openings(folder, options.open_store(store), spec, plugin_options(option)):
        lines = with_java(text)
        say(f"# {name}\n{lines}\n")
        if check and (outcome := run_lines(lines)):
            say(f"# {outcome}\n")
            failed += [name] if outcome.startswith("fails") else []
    if failed:
        raise HardnegError(f"pyserini: the lines of {', '.join(failed)} fail: `hardneg doctor` shows what is installed")
