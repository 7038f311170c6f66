"""The `hardneg` command with all its subcommands; errors are reported in one line, with an exit code."""

import errno
import os
import signal
import sys
from contextlib import suppress
from difflib import get_close_matches
from io import TextIOWrapper
from types import FrameType
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

import hardneg
from hardneg.cli import adaptor, commands, console, doctor, plugins, recipe
from hardneg.records import ArtifactError, DataError, HardnegError, MissingDependency, PluginError
from hardneg.registry import OUTSIDE, entry_points, load_plugin, not_installed, plugin_summary
from hardneg.runtime import world

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

EXIT_CODES = (
    "Exit codes: 0 success, 1 other error, 2 usage or recipe, 3 plugin, 4 data file, 5 store or output, 6 model, "
    "7 missing dependency, 8 training, 9 Hugging Face hub, 130 stopped with Ctrl-C."
)
_ROOM = {
    errno.ENOSPC: "the disk is full; free some space and run again",
    errno.EDQUOT: "the disk quota is used up; free some space and run again",
    errno.EFBIG: "the file exceeds the size limit (ulimit -f); raise the limit and run again",
    errno.EROFS: "the disk is read-only; write elsewhere",
}
_CLOSED = (errno.EACCES, errno.EPERM)


class PackageGroup(TyperGroup):
    """A command group with commands from installed packages; the error for a missing command names its package.

    An entry point of two words, such as `recipe verify`, belongs to the group `recipe`. The help imports no package.
    """

    kind, panel = "apps", "From installed packages"
    lacking: ClassVar[type[HardnegError]] = MissingDependency
    _helping = False

    def made(self, point: "EntryPoint") -> Any:
        """Load the command of an entry point. Raises PluginError if it cannot be imported."""
        try:
            return adaptor.click_command(point.name.rpartition(" ")[2], point.load())
        except ImportError as error:
            raise PluginError(f"the command {point.name!r} ({point.value}) cannot be imported ({error})") from error

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of the built-in commands, followed by the sorted names of commands from packages."""
        own = super().list_commands(ctx)
        return [*own, *sorted({*self._brought()} - {*own})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command, or None if it is unknown. In the help, a package's command is a stub with a summary."""
        if cmd_name in self.commands or cmd_name not in (brought := self._brought()):
            return super().get_command(ctx, cmd_name)
        point = brought[cmd_name]
        if not self._helping:
            return self.made(point)
        summary = f"{plugin_summary(point.value) or 'No summary'}."
        return TyperCommand(cmd_name, callback=None, help=summary, rich_help_panel=self.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return a command's name, object and arguments; errors suggest a package to install, or similar commands."""
        known = (args[:1] and (args[0] in self.commands or args[0].startswith("-"))) or ctx.resilient_parsing
        if args and not known and args[0] not in (own := self.list_commands(ctx)):
            if where := not_installed(self.kind, self._within() + args[0]):
                raise self.lacking(f"the command {self._within() + args[0]!r} is {where}")
            known = [*own, *(name for kind, name in OUTSIDE if kind == self.kind)]
            alike = ", ".join(map(repr, dict.fromkeys(get_close_matches(args[0], known))))
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {alike}?' if alike else ''}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Format the help without importing packages."""
        self._helping = True
        super().format_help(ctx, formatter)

    def _within(self) -> str:
        """The prefix of this group's entry points, such as `recipe `; empty for the main group."""
        return f"{self.name} " if any(name.startswith(f"{self.name} ") for _, name in OUTSIDE) else ""

    def _brought(self) -> "dict[str, EntryPoint]":
        """Entry points of packages for this group, by command name."""
        within, points = self._within(), [(point.name.rpartition(" "), point) for point in entry_points(self.kind)]
        return {name: point for (of, space, name), point in points if of + space == within}


class _Analyses(PackageGroup):
    """The installed analyses; each becomes a command, generated from its fields, when it is called."""

    kind, panel, lacking = "analyses", "Analyses", PluginError

    def made(self, point: "EntryPoint") -> Any:
        """The click command for an analysis, with options for its fields."""
        from hardneg.cli.analysis_command import command_of

        return command_of(load_plugin("analyses", point.name))


class _Group(PackageGroup):
    """The main group."""

    def invoke(self, ctx: Any) -> Any:
        """Run a command; errors refer to arguments by their flags."""
        with console.flags_named(adaptor.plain_flag):
            return super().invoke(ctx)


app = typer.Typer(
    cls=_Group,
    help="Train dense retrievers with hard negatives, write Pyserini indexes and TREC runs, and test for improvements.",
    epilog=EXIT_CODES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)
_ANALYSES = typer.Typer(
    help="Analyse results: errors, drift and filtering of negatives, overlap, wins, costs.", no_args_is_help=True
)
for panel, name, group, kind in (
    (adaptor.RECIPES, "recipe", recipe.app, PackageGroup),
    (adaptor.RECIPES, "artifacts", recipe.artifacts_app, TyperGroup),
    (adaptor.AROUND, "data", plugins.data, PackageGroup),
    (adaptor.AROUND, "plugins", plugins.app, TyperGroup),
    (adaptor.STAGES, "index", commands.index_app, TyperGroup),
    (adaptor.RESULTS, "analyze", _ANALYSES, _Analyses),
):
    app.add_typer(group, name=name, cls=kind, rich_help_panel=panel)
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


@app.callback(invoke_without_command=True)
def _root(version: bool = typer.Option(False, "--version", help="Show the version.")) -> None:
    if version:
        console.say(f"hardneg {hardneg.__version__}")
        raise typer.Exit


def _stop(number: int, frame: FrameType | None) -> None:
    if world().rank == 0:
        console.say("hardneg: stopped; finished work is saved. Run the same command to resume", err=True)
    sys.exit(128 + number)


def main() -> None:
    """Run the command line; an error is reported in one line or, with HARDNEG_DEBUG=1, as a traceback."""
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
    """Print an error on stderr and exit with the error's exit code."""
    shown = error if isinstance(error, HardnegError) else as_hardneg_error(error)
    with suppress(OSError):
        console.say(f"hardneg: {shown}", err=True)
    drop_stdout()
    sys.exit(shown.exit_code)


def as_hardneg_error(error: OSError) -> HardnegError:
    """Convert a system error to an ArtifactError if a write failed, else to a DataError."""
    number, name = error.errno or 0, error.filename2 or error.filename
    where = str(name) if name is not None else "standard output or a file"
    if number in _ROOM:
        return ArtifactError(f"{where}: {_ROOM[number]}")
    unreadable = name is not None and (
        not os.access(os.path.dirname(os.path.abspath(name)), os.X_OK)
        or (os.path.exists(name) and not os.access(name, os.R_OK))
    )
    if number in _CLOSED and name is not None and not unreadable:
        return ArtifactError(f"{where}: cannot be written ({error.strerror}); check permissions, or write elsewhere")
    return DataError(f"{where}: cannot be read ({error.strerror or error})")


def drop_stdout() -> None:
    """Redirect an unwritable stdout to the null device, so that exiting raises no second error."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
