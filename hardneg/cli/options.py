"""What several commands share: their options, and their groups in help."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import Parameter
from pathlib import Path
from typing import Any

import typer

from hardneg.cli import completion
from hardneg.cli.console import say
from hardneg.functions.arguments import MACHINE as MACHINE
from hardneg.functions.arguments import REQUIRED, Arg, Where, options_of
from hardneg.functions.arguments import WRITTEN as WRITTEN
from hardneg.functions.session import usual_store
from hardneg.records import HardnegError
from hardneg.runtime import check_device, world
from hardneg.store import Store

RECIPES = "Recipes"
STAGES = "Single stages, on plain files"
RESULTS = "Results"
AROUND = "What there is"


def keyword(name: str, **facts: Any) -> Parameter:
    """A parameter of a command's function, which is called by names; facts: its default and annotation."""
    return Parameter(name, Parameter.KEYWORD_ONLY, **facts)


JSON = typer.Option(False, "--json", help="Print JSON and nothing else.")
OVERWRITE = typer.Option(
    False, "--overwrite", help="Replace existing output, unless it is also an input.", rich_help_panel=WRITTEN
)


def path_of(text: str) -> Path | None:
    """A path; an empty text, such as a variable that is not set, is the usual place."""
    return Path(text) if str(text) else None


def output(written: str, default: Any = ...) -> Any:
    """`--output`, of a command that writes this."""
    return typer.Option(default, "--output", "-o", help=written, rich_help_panel=WRITTEN)


OUTPUT_FOLDER = output("The folder to write.")
OUTPUT_RUN = output("The run to write, NAME.trec.gz.")
OUTPUT_FILE = output("The file to write; its suffix must fit the form.")


def key_values(meaning: str, panel: str | None = None) -> Any:
    """An option that is given once for each KEY=VALUE; panel: its group in help."""
    return typer.Option([], metavar="KEY=VALUE", help=meaning, rich_help_panel=panel)


def checked_device(context: typer.Context, device: str | None) -> str | None:
    """The device as given. Raises UsageError: there is none of that name here."""
    if device is not None and not context.resilient_parsing:
        check_device(device)
    return device


def option_of(argument: Arg, *default: Any) -> Any:
    """The option that an argument is; default: where that does not stand apart, as in an annotation."""
    if argument.operand:
        return typer.Argument(metavar=argument.metavar, help=argument.help)
    completed = completion.words(*argument.words) if argument.words else None
    completed = completion.plugins(argument.plugin) if argument.plugin else completed
    completed = completion.metrics if argument.metrics else completed
    return typer.Option(
        *default,
        flag(argument),
        *(f"--{same}" for same in argument.same),
        help=argument.help,
        metavar=argument.metavar or None,
        min=argument.least if argument.cli is int else None,
        parser=path_of if argument.name == "store" else None,
        callback=checked_device if argument.name == "device" else None,
        show_default=argument.default not in (REQUIRED, None, ()),
        rich_help_panel=argument.panel or None,
        autocompletion=completed,
    )


def flag(argument: Arg) -> str:
    """What a command calls an argument."""
    if argument.operand:
        return argument.metavar
    return f"--{argument.flag or argument.name.replace('_', '-')}"


def plain_flag(name: str) -> str:
    """What most commands call an argument of this name."""
    return flag(SHARED[name]) if name in SHARED else f"--{name.replace('_', '-')}"


@contextmanager
def flags_named(called: Callable[[str], str]) -> Iterator[None]:
    """Has errors call arguments as a command does, unless they know it better."""
    try:
        yield
    except HardnegError as error:
        if "called" not in vars(error):
            error.called = called
        raise


_PLAN = Arg("Show the steps, and do nothing.", cli=bool, default=False, name="plan")
SHARED = {**options_of(Where), "plan": _PLAN}
"""What commands have beside the own arguments of functions."""
SET, STORE, DEVICE, ENGINE = (
    option_of(SHARED[name], [] if name == "settings" else SHARED[name].default)
    for name in ("settings", "store", "device", "engine")
)
ENGINE_OPTION = key_values("An option of the engine, such as actors=4.", MACHINE)


def open_store(path: Path | None) -> Store:
    """The store at `path`, which is told where it is not there yet, or at its usual place.

    Raises:
        ArtifactError: a file is there, or nothing can be.
    """
    store = usual_store(path)
    if path is not None and not store.root.exists() and world().first:
        say(f"note: there is no store at {path} yet; what is made goes there", err=True)
    return store


def tell_once(line: str) -> None:
    """One line on stderr: of several processes only the first says it."""
    if world().first:
        say(f"hardneg: {line}", err=True)
