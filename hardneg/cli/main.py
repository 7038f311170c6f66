"""The `hardneg` command: groups its commands, turns errors into one line and an exit code."""

import os
import signal
import sys
from types import FrameType

import typer

import hardneg
from hardneg.cli import analyze, artifacts, data, index, panels, plugins, recipe
from hardneg.cli.doctor import doctor
from hardneg.cli.evaluate import evaluate
from hardneg.cli.failures import drop_stdout, end
from hardneg.cli.fuse import fuse
from hardneg.cli.mine import export, mine
from hardneg.cli.names import METRIC, METRICS, renaming
from hardneg.cli.printing import say, stream
from hardneg.cli.report import report
from hardneg.cli.rerank import rerank
from hardneg.cli.stages import encode, search, train
from hardneg.distributed import world
from hardneg.errors import HardnegError

EXIT_CODES = (
    "Exit codes: 0 done, 1 an error of hardneg, 2 wrong usage or a mistake in a recipe, 3 a plugin, 4 a data file, "
    "5 the store, or an output that cannot be written, 6 a model, 7 something is not installed, 8 training, "
    "130 stopped with Ctrl-C."
)

app = typer.Typer(
    help="Trains dense retrievers with hard negatives; writes Pyserini indexes and TREC runs; tests the difference.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.add_typer(recipe.app, name="recipe", rich_help_panel=panels.RECIPES)
app.add_typer(artifacts.app, name="artifacts", rich_help_panel=panels.RECIPES)
app.add_typer(data.app, name="data", rich_help_panel=panels.AROUND)
app.add_typer(plugins.app, name="plugins", rich_help_panel=panels.AROUND)
app.add_typer(index.app, name="index", rich_help_panel=panels.STAGES)
app.add_typer(analyze.app, name="analyze", rich_help_panel=panels.RESULTS)
app.command("doctor", rich_help_panel=panels.RECIPES)(doctor)
app.command("encode", rich_help_panel=panels.STAGES)(encode)
app.command("search", cls=renaming({"--index": "--backend"}), rich_help_panel=panels.STAGES)(search)
app.command("rerank", rich_help_panel=panels.STAGES)(rerank)
app.command("fuse", cls=renaming(same=METRIC), rich_help_panel=panels.STAGES)(fuse)
app.command(
    "mine", cls=renaming({"--negatives": "--count", "--corpus": "--corpus-output"}), rich_help_panel=panels.STAGES
)(mine)
app.command("train", rich_help_panel=panels.STAGES)(train)
app.command("export", cls=renaming({"--corpus": "--corpus-output"}), rich_help_panel=panels.STAGES)(export)
app.command("evaluate", cls=renaming(same=METRICS), rich_help_panel=panels.RESULTS)(evaluate)
app.command("report", cls=renaming(same=METRICS), rich_help_panel=panels.RESULTS)(report)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(f"hardneg {hardneg.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def _stop(number: int, frame: FrameType | None) -> None:
    if world().first:
        say("hardneg: stopped; what was finished is kept, the same command goes on from there", err=True)
    sys.exit(128 + number)


def main() -> None:
    """Runs the command line; set HARDNEG_DEBUG=1 to see where an error comes from."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    try:
        try:
            app()
        finally:
            with stream("standard output"):
                sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
        sys.exit(1)
    except (HardnegError, OSError) as error:
        if os.environ.get("HARDNEG_DEBUG"):
            raise
        end(error)
