"""The options of a line's command, from its arguments, and the arguments from what was given for the options."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from inspect import Parameter
from math import isfinite
from typing import Annotated, Any, get_args, get_origin

from hardneg.api.argument_values import plugin_setting
from hardneg.cli.options import flag, key_values, keyword, option_of
from hardneg.cli.planned_work import plugin_options
from hardneg.lines.base import REQUIRED, Argument, Line, common
from hardneg.records.errors import UsageError


def flag_of(line: type[Line]) -> Callable[[str], str]:
    """What the command of a line calls its arguments."""
    known = {each.name: each for each in (*line.resolved().values(), *common(line))}
    return lambda name: flag(known[name]) if name in known else f"--{name.replace('_', '-')}"


def arguments_of(line: type[Line]) -> list[Argument]:
    """All arguments of the command."""
    shared = [each for each in common(line) if each.name in line.shows]
    return [each for each in (*line.resolved().values(), *shared) if "command" in each.shown_in]


def parameters(line: type[Line]) -> Iterator[Parameter]:
    """Those of the command of a line; after the first plugin the options of all."""
    seen: set[str] = set()
    for each in arguments_of(line):
        yield parameter(each)
        name = _options_of(each)
        if name and name not in seen:
            seen.add(name)
            meaning = f"An option of the {each.name}: KEY=VALUE, or {each.name}.KEY=VALUE."
            yield keyword(name, default=key_values(meaning, each.panel or None), annotation=list[str])


def _options_of(argument: Argument) -> str:
    """The parameter that has the options of the plugin which an argument names; empty where it names none."""
    if argument.plugins in ("", "datasets"):
        return ""
    return "engine_option" if argument.plugins == "engines" else "option"


def parameter(each: Argument) -> Parameter:
    """The option that an argument is."""
    form = list[str] if get_origin(each.form) is dict else each.form
    default = None if get_origin(form) is list or each.default is REQUIRED else each.default
    said = option_of(each)
    if each.default is REQUIRED:
        return keyword(each.name, annotation=Annotated[form, said])
    return keyword(each.name, default=default, annotation=Annotated[form | None if default is None else form, said])


def values(line: type[Line], args: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that were given, by their names.

    Raises:
        UsageError: a text is of another form than its option takes, or a plugin's option stands without the plugin.
    """
    arguments = arguments_of(line)
    read = {each.name: _read(each, args[each.name]) for each in arguments if args.get(each.name) not in (None, [], ())}
    for name in dict.fromkeys(filter(None, map(_options_of, arguments))):
        plugins = [each for each in arguments if _options_of(each) == name]
        for plugin, options in _by_plugin(line, plugins, args.get(name) or [], name).items():
            if plugin not in read:
                problem = (
                    f"--{name.replace('_', '-')} {next(iter(options))}: is an option of {{{plugin}}}, which is missing"
                )
                raise UsageError(problem, plugin)
            read[plugin] = {**plugin_setting(plugin, read[plugin]), **options}
    return read


def _by_plugin(
    line: type[Line], plugins: Sequence[Argument], texts: Sequence[str], name: str
) -> dict[str, dict[str, Any]]:
    """The options of each plugin by its argument: `NAME.KEY=VALUE`, or `KEY=VALUE` of the first."""
    keys, first, own = f"--{name.replace('_', '-')}", plugins[0].name, {each.name: each for each in arguments_of(line)}
    options, names = dict[str, dict[str, Any]](), [each.name for each in plugins]
    for path, value in plugin_options(texts, keys).items():
        plugin, dot, key = path.partition(".")
        if not dot and path in own:
            which = f"say {first}.{path}={value} for that of the {first}, or {flag(own[path])} {value}"
            raise UsageError(f"{keys} {path}: means two things here: {which}")
        if dot and plugin not in names:
            raise UsageError(f"{keys} {path}: names no plugin of this command; it has: {', '.join(names)}")
        options.setdefault(plugin if dot else first, {})[key if dot else path] = value
    return options


def _read(argument: Argument, raw: Any) -> Any:
    """What was given for an option; of NAME=VALUE a dict."""
    if get_origin(argument.form) is not dict:
        return raw
    value_type = get_args(argument.form)[1]
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
