"""A command from a plain function, whose signature is the one place where an argument is declared."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from math import isfinite
from typing import Annotated, Any, get_args, get_origin

import typer

from hardneg.cli.options import SHARED, flag, flags_named, key_values, keyword, option_of, plain_flag
from hardneg.cli.planned_work import plugin_options
from hardneg.functions.argument_values import plugin_setting
from hardneg.functions.arguments import REQUIRED, Arg, arguments_of
from hardneg.records import UsageError


def shown(function: Callable[..., Any], shows: Sequence[str]) -> dict[str, Arg]:
    """The arguments of a function's command: its own, and those of every function that it shows."""
    own = {name: each for name, each in arguments_of(function).items() if name not in SHARED}
    return own | {name: SHARED[name] for name in shows}


def flag_of(function: Callable[..., Any]) -> Callable[[str], str]:
    """What the command of a function calls its arguments."""
    known = {**arguments_of(function), **SHARED}
    return lambda name: flag(known[name]) if name in known else f"--{name.replace('_', '-')}"


def text_of(function: Callable[..., Any]) -> str:
    """What a function's docstring says, without the section of errors."""
    blocks = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(block for block in blocks if not block.startswith("Raises:"))


def shaped(
    function: Callable[..., None], parameters: Sequence[Parameter], text: str, called: Callable[[str], str] = plain_flag
) -> Callable[..., None]:
    """A function with these options and this text, as typer reads them; its errors call arguments by flags."""

    def run(**args: Any) -> None:
        with flags_named(called):
            function(**args)

    run.__doc__ = text
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
    seen: set[str] = set()
    for each in arguments.values():
        yield parameter(each)
        name = _options_of(each)
        if name and name not in seen:
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
    if argument.plugin in ("", "datasets"):
        return ""
    return "engine_option" if argument.plugin == "engines" else "option"


def values(arguments: Mapping[str, Arg], args: Mapping[str, Any]) -> dict[str, Any]:
    """What was given for a function's own arguments, as it takes them, by their names.

    Raises:
        UsageError: a text is of another form than its option takes, or a plugin's option stands without the plugin.
    """
    own = {name: each for name, each in arguments.items() if name not in SHARED}
    read = {name: _read(each, args[name]) for name, each in own.items() if args.get(name) not in (None, [], ())}
    plugins = [each for each in own.values() if _options_of(each)]
    for plugin, options in _by_plugin(plugins, args.get("option") or []).items():
        if plugin not in read:
            problem = f"--option {next(iter(options))}: is an option of {{{plugin}}}, which is missing"
            raise UsageError(problem, plugin)
        read[plugin] = {**plugin_setting(plugin, read[plugin]), **options}
    return read


def _by_plugin(plugins: Sequence[Arg], texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The options of each plugin by its argument: `NAME.KEY=VALUE`, or `KEY=VALUE` of the first."""
    options, names = dict[str, dict[str, Any]](), [each.name for each in plugins]
    for path, value in plugin_options(texts).items():
        plugin, dot, key = path.partition(".")
        if dot and plugin not in names:
            raise UsageError(f"--option {path}: names no plugin of this command; it has: {', '.join(names)}")
        options.setdefault(plugin if dot else names[0], {})[key if dot else path] = value
    return options


def _read(argument: Arg, raw: Any) -> Any:
    """What was given for an option; of NAME=VALUE a dict."""
    if get_origin(argument.cli) is not dict:
        return raw
    value_type = get_args(argument.cli)[1]
    if value_type is Any:
        return plugin_options(raw, flag(argument))
    pairs = [(text, *text.rpartition("=")[::2]) for text in raw]
    if get_origin(value_type) is list:
        return {name: [_number(value, text) for value in texts.split(",")] for text, name, texts in pairs}
    return {name: _number(value, text) for text, name, value in pairs}


def _number(value: str, text: str) -> float:
    """A number, or a line on the text that it stands in."""
    try:
        number = float(value)
    except ValueError:
        number = float("nan")
    if "=" not in text or not isfinite(number):
        raise UsageError(f"{text}: must be a name, =, and numbers")
    return number
