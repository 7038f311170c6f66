"""A command from a plain function, whose signature says its arguments once; and the options that many have."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import typer

from hardneg.cli import completion, console
from hardneg.functions.arguments import MACHINE, REQUIRED, WRITTEN, Arg, Where, arguments_of, options_of, plugin_setting
from hardneg.functions.session import usual_store
from hardneg.records import UsageError
from hardneg.runtime import check_device, world
from hardneg.store import Store

RECIPES, STAGES, RESULTS, AROUND = "Recipes", "Single stages, on plain files", "Results", "What there is"

JSON = typer.Option(False, "--json", help="Print JSON and nothing else.")
OVERWRITE = typer.Option(
    False, "--overwrite", help="Replace existing output, unless it is also an input.", rich_help_panel=WRITTEN
)


def keyword(name: str, **facts: Any) -> Parameter:
    """A parameter of a command's function, which is called by names; facts: its default and annotation."""
    return Parameter(name, Parameter.KEYWORD_ONLY, **facts)


def output(written: str, default: Any = ...) -> Any:
    """`--output`, of a command that writes this."""
    return typer.Option(default, "--output", "-o", help=written, rich_help_panel=WRITTEN)


def key_values(meaning: str, panel: str | None = None) -> Any:
    """An option that is given once for each KEY=VALUE; panel: its group in help."""
    return typer.Option([], metavar="KEY=VALUE", help=meaning, rich_help_panel=panel)


def flag(argument: Arg) -> str:
    """What a command calls an argument."""
    return argument.metavar if argument.operand else f"--{argument.flag or argument.name.replace('_', '-')}"


def plain_flag(name: str) -> str:
    """What most commands call an argument of this name."""
    return flag(SHARED[name] if name in SHARED else Arg("", name=name))


def flag_of(function: Callable[..., Any]) -> Callable[[str], str]:
    """What the command of a function calls its arguments."""
    known = arguments_of(function)
    return lambda name: flag(known[name]) if name in known else plain_flag(name)


def _checked_device(context: typer.Context, device: str | None) -> str | None:
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
        parser=(lambda text: Path(text) if str(text) else None) if argument.name == "store" else None,
        callback=_checked_device if argument.name == "device" else None,
        show_default=argument.default not in (REQUIRED, None, ()),
        rich_help_panel=argument.panel or None,
        autocompletion=completed,
    )


SHARED = {**options_of(Where), "plan": Arg("Show the steps, and do nothing.", cli=bool, default=False, name="plan")}
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
        console.say(f"note: there is no store at {path} yet; what is made goes there", err=True)
    return store


def tell_once(line: str) -> None:
    """One line on stderr: of several processes only the first says it."""
    if world().first:
        console.say(f"hardneg: {line}", err=True)


def shown(function: Callable[..., Any], shows: Sequence[str]) -> dict[str, Arg]:
    """The arguments of a function's command: its own, and those of every function that it shows."""
    own = {name: each for name, each in arguments_of(function).items() if name not in SHARED}
    return own | {name: SHARED[name] for name in shows}


def text_of(function: Callable[..., Any]) -> str:
    """What a function's docstring says, without the section of errors."""
    blocks = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(block for block in blocks if not block.startswith("Raises:"))


def shaped(
    function: Callable[..., None], parameters: Sequence[Parameter], text: str, called: Callable[[str], str] = plain_flag
) -> Callable[..., None]:
    """A function with these options and this text, as typer reads them; its errors call arguments by flags."""

    def run(**args: Any) -> None:
        with console.flags_named(called):
            function(**args)

    run.__doc__, run.__name__ = text, function.__name__.lstrip("_")
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def click_command(name: str, run: Callable[..., None]) -> Any:
    """The command that typer makes of a function."""
    app = typer.Typer(add_completion=False)
    app.command(name)(run)
    return typer.main.get_command(app)


def parameters(arguments: Mapping[str, Arg]) -> Iterator[Parameter]:
    """The options of a command with these arguments; after the first plugin the options of all."""
    seen = {""}
    for each in arguments.values():
        yield parameter(each)
        if (name := _options_of(each)) not in seen:
            seen.add(name)
            meaning = f"An option of the {each.name}: KEY=VALUE, or {each.name}.KEY=VALUE."
            yield keyword(name, default=key_values(meaning, each.panel or None), annotation=list[str])


def parameter(each: Arg) -> Parameter:
    """The option that an argument is."""
    form, said = list[str] if get_origin(each.cli) is dict else each.cli, option_of(each)
    if each.default is REQUIRED:
        return keyword(each.name, annotation=Annotated[form, said])
    default = None if get_origin(form) is list else each.default
    return keyword(each.name, default=default, annotation=Annotated[form | None if default is None else form, said])


def _options_of(argument: Arg) -> str:
    """The parameter that has the options of the plugin which an argument names; empty where it names none."""
    names = {"": "", "datasets": "", "engines": "engine_option"}
    return names.get(argument.plugin, "option")


def plugin_options(texts: Sequence[str], option: str = "--option") -> dict[str, Any]:
    """`--option KEY=VALUE`, each value read as YAML."""
    from hardneg.recipes import parse_setting

    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text}: must be of the form KEY=VALUE")
        try:
            options[key] = parse_setting(value)
        except ValueError as error:
            raise UsageError(f"{option} {key}: {error}") from None
    return options


def values(arguments: Mapping[str, Arg], args: Mapping[str, Any]) -> dict[str, Any]:
    """What was given for a function's own arguments, as it takes them, by their names.

    Raises:
        UsageError: a text is of another form than its option takes, or a plugin's option stands without the plugin.
    """
    own = {name: each for name, each in arguments.items() if name not in SHARED}
    read = {name: args[name] for name in own if args.get(name) not in (None, [], ())}
    for name, raw in read.items():
        if get_origin(own[name].cli) is dict:
            read[name] = _mapping(own[name], raw)
    names = [each.name for each in own.values() if _options_of(each)]
    for path, value in plugin_options(args.get("option") or []).items():
        plugin, dot, key = path.partition(".")
        if dot and plugin not in names:
            raise UsageError(f"--option {path}: names no plugin of this command; it has: {', '.join(names)}")
        plugin, key = (plugin, key) if dot else (names[0], path)
        if plugin not in read:
            raise UsageError(f"--option {key}: is an option of {{{plugin}}}, which is missing", plugin)
        read[plugin] = {**plugin_setting(plugin, read[plugin]), key: value}
    return read


def _mapping(argument: Arg, texts: Sequence[str]) -> dict[str, Any]:
    """What was given as NAME=VALUE, again and again: values in YAML, numbers, or lists of them."""
    value_type = get_args(argument.cli)[1]
    if value_type is Any:
        return plugin_options(texts, flag(argument))
    read: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.rpartition("=")
        try:
            numbers = [float(each) for each in value.split(",")]
        except ValueError:
            numbers = []
        several = get_origin(value_type) is list
        if not equals or not numbers or not all(map(isfinite, numbers)) or (len(numbers) > 1 and not several):
            raise UsageError(f"{text}: must be a name, =, and numbers")
        read[name] = numbers if several else numbers[0]
    return read
