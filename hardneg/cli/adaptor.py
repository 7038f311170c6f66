"""Command-line options generated from the arguments of functions, shared options, and shell completion."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, get_origin

import typer

from hardneg import evaluation, recipes
from hardneg.cli import console
from hardneg.functions.arguments import MACHINE, REQUIRED, WRITTEN, Arg, Where, arguments_of, options_of
from hardneg.records import HardnegError
from hardneg.registry import SINGULARS, list_plugins
from hardneg.runtime import world

RECIPES, STAGES, RESULTS, AROUND = "Recipes", "Single stages on plain files", "Results", "Data and plugins"

JSON = typer.Option(False, "--json", help="Print only JSON.")
OVERWRITE = typer.Option(
    False, "--overwrite", help="Replace existing output, unless it is also an input.", rich_help_panel=WRITTEN
)


_CUTOFFS = (5, 10, 20, 100, 1000)


def complete_recipes() -> list[str]:
    """The names of the installed recipes; the shell completes the paths of recipe files."""
    return recipes.named_recipes()


def complete_presets(context: typer.Context) -> list[str]:
    """The presets of the recipe on the command line; empty if the recipe cannot be read."""
    return _of_recipe(context, lambda source: list(recipes.preset_names(source)))


def complete_stages(context: typer.Context) -> list[str]:
    """Return `dataset` and the stages of the recipe on the command line; empty if the recipe cannot be read."""
    preset = context.params.get("preset")
    return _of_recipe(
        context, lambda source: ["dataset", *(recipes.expand(source, preset, ()).tree.get("stages") or ())]
    )


def _of_recipe(context: typer.Context, read: Callable[[Any], list[str]]) -> list[str]:
    """Return the result of `read` for the recipe on the command line; empty if the recipe cannot be read."""
    typed = context.args[0] if context.args else None  # if the completed option is last
    name = context.params.get("recipe") or context.params.get("name") or typed
    try:
        return read(recipes.find_recipe(name)) if name else []
    except HardnegError:
        return []


def complete_plugins(kind: str) -> Callable[[], list[str]]:
    """Return a completer that offers the names of the installed plugins of a kind, such as `losses`."""
    return lambda: [plugin.name for plugin in list_plugins(kind)]


def complete_kinds() -> list[str]:
    """The kinds of plugins, as singular nouns."""
    return list(SINGULARS)


def complete_named_plugins(context: typer.Context) -> list[str]:
    """Return the names of the installed plugins of the kind given on the command line."""
    kind = context.params.get("kind") or ""
    return complete_plugins(SINGULARS.get(kind, kind))()


def complete_metrics() -> list[str]:
    """The names of metrics: each measure at the usual cutoffs, such as `mrr@10`."""
    return [f"{measure}@{cutoff}" for measure in (*evaluation.metrics.MEASURES, "answer") for cutoff in _CUTOFFS]


def complete_words(*known: str) -> Callable[[], list[str]]:
    """Return a completer that offers the given words."""
    return lambda: list(known)


def keyword(name: str, **facts: Any) -> Parameter:
    """Return a keyword-only parameter for a command's function; facts: its default and its annotation."""
    return Parameter(name, Parameter.KEYWORD_ONLY, **facts)


def output(written: str, default: Any = ...) -> Any:
    """The option `--output`, required unless `default` is given; written: its help text."""
    return typer.Option(default, "--output", "-o", help=written, rich_help_panel=WRITTEN)


def key_values(meaning: str, panel: str | None = None) -> Any:
    """A repeatable option KEY=VALUE; meaning: the help text; panel: the heading above it in the help."""
    return typer.Option([], metavar="KEY=VALUE", help=meaning, rich_help_panel=panel)


def flag(argument: Arg) -> str:
    """Return the command-line name of an argument: its flag or, for a positional argument, its placeholder."""
    return argument.metavar if argument.operand else f"--{argument.flag or argument.name.replace('_', '-')}"


def plain_flag(name: str) -> str:
    """Return the command-line name of a shared argument; any other name becomes a flag, such as `--as-json`."""
    return flag(SHARED[name] if name in SHARED else Arg("", name=name))


def flag_of(function: Callable[..., Any]) -> Callable[[str], str]:
    """Return a function that maps an argument of `function` to the name of its command-line option."""
    known = arguments_of(function)
    return lambda name: flag(known[name]) if name in known else plain_flag(name)


def option_of(argument: Arg, *default: Any) -> Any:
    """Return an argument's typer option or positional argument; default: its default, omitted inside `Annotated`."""
    if argument.operand:
        return typer.Argument(metavar=argument.metavar, help=argument.help)
    completed = complete_words(*argument.words) if argument.words else None
    completed = complete_plugins(argument.plugin) if argument.plugin else completed
    completed = complete_metrics if argument.metrics else completed
    return typer.Option(
        *default,
        flag(argument),
        *(f"--{same}" for same in argument.same),
        help=argument.help,
        metavar=argument.metavar or None,
        min=argument.least if argument.cli is int else None,
        parser=(lambda text: Path(text) if str(text) else None) if argument.name == "store" else None,
        show_default=argument.default not in (REQUIRED, None, ()),
        rich_help_panel=argument.panel or None,
        autocompletion=completed,
    )


SHARED = {**options_of(Where), "plan": Arg("Show the steps, but run nothing.", cli=bool, default=False, name="plan")}
"""Options that commands share, by argument name."""
SET, STORE, DEVICE, ENGINE = (
    option_of(SHARED[name], [] if name == "settings" else SHARED[name].default)
    for name in ("settings", "store", "device", "engine")
)
ENGINE_OPTION = key_values("An option of the engine, such as actors=4.", MACHINE)


def tell_once(line: str) -> None:
    """Print one line on stderr; with several processes, only the first prints it."""
    if world().rank == 0:
        console.say(f"hardneg: {line}", err=True)


def shown(function: Callable[..., Any], shows: Sequence[str]) -> dict[str, Arg]:
    """Return the arguments of a function's command: its own, followed by the shared arguments named in `shows`."""
    own = {name: each for name, each in arguments_of(function).items() if name not in SHARED}
    return own | {name: SHARED[name] for name in shows}


def text_of(function: Callable[..., Any]) -> str:
    """The docstring of a function without its `Raises` section."""
    blocks = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(block for block in blocks if not block.startswith("Raises:"))


def shaped(
    function: Callable[..., None], parameters: Sequence[Parameter], text: str, called: Callable[[str], str] = plain_flag
) -> Callable[..., None]:
    """Wrap a function for typer with options `parameters` and help `text`; `called` names arguments in errors."""

    function.__doc__, function.__name__ = text, function.__name__.lstrip("_")
    run = console.flags_named(called)(function)
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def click_command(name: str, run: Callable[..., None]) -> Any:
    """Convert a function with typer options to a click command with the given name."""
    app = typer.Typer(add_completion=False)
    app.command(name)(run)
    return typer.main.get_command(app)


def parameters(arguments: Mapping[str, Arg]) -> Iterator[Parameter]:
    """Yield an option for each argument, `--option` for options of plugins, and `--engine-option` for the engine's."""
    seen = set[str]()
    for each in arguments.values():
        yield parameter(each)
        name = "engine_option" if each.plugin == "engine" else "option"
        if each.plugin not in ("", "datasets") and name not in seen:
            seen.add(name)
            meaning = f"An option of the {each.name}, as KEY=VALUE or {each.name}.KEY=VALUE."
            yield keyword(name, default=key_values(meaning, each.panel or None), annotation=list[str])


def parameter(each: Arg) -> Parameter:
    """Return the keyword-only parameter that declares an argument to typer, optional if the argument has a default."""
    form, said = list[str] if get_origin(each.cli) is dict else each.cli, option_of(each)
    if each.default is REQUIRED:
        return keyword(each.name, annotation=Annotated[form, said])
    default = None if get_origin(form) is list else each.default
    return keyword(each.name, default=default, annotation=Annotated[form | None if default is None else form, said])
