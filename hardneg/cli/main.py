"""The `hardneg` command: its groups, and errors as one line and an exit code."""

import errno
import os
import signal
import sys
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType
from typing import Any

import typer

import hardneg
from hardneg.cli import adaptor, commands, console, doctor, plugins, recipe
from hardneg.records import ArtifactError, DataError, HardnegError
from hardneg.runtime import world

EXIT_CODES = (
    "Exit codes: 0 done, 1 an error of hardneg, 2 wrong usage or a mistake in a recipe, 3 a plugin, 4 a data file, "
    "5 the store, or an output that cannot be written, 6 a model, 7 a missing dependency, 8 training, "
    "9 the Hugging Face hub, 130 stopped with Ctrl-C."
)
_ROOM = {
    errno.ENOSPC: "the disk is full; free some space and run again",
    errno.EDQUOT: "the disk quota is used up; free some space and run again",
    errno.EFBIG: "the file exceeds the size limit (ulimit -f); raise it and run again",
    errno.EROFS: "the disk is read-only; write to another place",
}
_CLOSED = (errno.EACCES, errno.EPERM)


class _Group(adaptor.PackageGroup):
    """The main group."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; its errors name arguments by their flags."""
        with console.flags_named(adaptor.plain_flag):
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    help="Train dense retrievers with hard negatives; write Pyserini indexes and TREC runs; test the difference.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
for panel, name, group in (
    (adaptor.RECIPES, "recipe", recipe.app),
    (adaptor.RECIPES, "artifacts", recipe.artifacts_app),
    (adaptor.AROUND, "data", plugins.data),
    (adaptor.AROUND, "plugins", plugins.app),
    (adaptor.STAGES, "index", commands.index_app),
    (adaptor.RESULTS, "analyze", adaptor.analyses),
):
    app.add_typer(group, name=name, rich_help_panel=panel)
for name, command in commands.commands().items():
    within, shown = (commands.index_app, None) if name == "index build" else (app, adaptor.STAGES)
    within.command(name.rpartition(" ")[2], rich_help_panel=shown)(command.command(name))
for shown, function in (
    (adaptor.RESULTS, commands.evaluate),
    (adaptor.RESULTS, commands.report),
    (adaptor.RECIPES, recipe.start),
    (adaptor.RECIPES, doctor.doctor),
    (adaptor.STAGES, commands.export),
    (adaptor.AROUND, commands.pyserini),
):
    app.command(function.__name__, rich_help_panel=shown)(function)


def _show_version(wanted: bool) -> None:
    if wanted:
        console.say(f"hardneg {hardneg.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: bool = typer.Option(False, "--version", callback=_show_version, is_eager=True, help="Show the version."),
) -> None:
    pass


def _stop(number: int, frame: FrameType | None) -> None:
    if world().rank == 0:
        console.say("hardneg: stopped; finished work is saved. Run the same command to resume", err=True)
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; HARDNEG_DEBUG=1 shows tracebacks."""
    signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    for each in (sys.stdout, sys.stderr):
        if isinstance(each, TextIOWrapper) and "utf" not in each.encoding.lower():  # cannot encode all characters
            each.reconfigure(errors="backslashreplace")
    try:
        try:
            app()
        finally:
            with console.stream("standard output"):
                sys.stdout.flush()
    except BrokenPipeError:
        drop_stdout()
        sys.exit(1)
    except (HardnegError, OSError) as error:
        if os.environ.get("HARDNEG_DEBUG"):
            raise
        end(error)


def end(error: HardnegError | OSError) -> None:
    """Print an error on stderr and exit with its code."""
    shown = error if isinstance(error, HardnegError) else as_hardneg_error(error)
    if "called" not in vars(shown):
        shown.called = adaptor.plain_flag
    with suppress(OSError):
        console.say(f"hardneg: {shown}", err=True)
    drop_stdout()
    sys.exit(shown.exit_code)


def as_hardneg_error(error: OSError) -> HardnegError:
    """The system error as an ArtifactError if a write failed, else as a DataError."""
    number, name = error.errno or 0, error.filename2 or error.filename
    where = str(name) if name is not None else "standard output or a file"
    if number in _ROOM:
        return ArtifactError(f"{where}: {_ROOM[number]}")
    unreadable = name is not None and (
        not os.access(os.path.dirname(os.path.abspath(name)), os.X_OK)
        or (os.path.exists(name) and not os.access(name, os.R_OK))
    )
    if number in _CLOSED and name is not None and not unreadable:
        return ArtifactError(f"{where}: {error.strerror}: write to another place, or check its permissions")
    return DataError(f"{where}: cannot be read ({error.strerror or error})")


def drop_stdout() -> None:
    """Redirect an unwritable stdout to the null device, so that the exit raises no second error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
