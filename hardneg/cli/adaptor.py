"""Commands made from functions or provided by installed packages; shared options, and shell completion."""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from inspect import Parameter
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from hardneg import evaluation, recipes
from hardneg.cli import console
from hardneg.functions.arguments import MACHINE, REQUIRED, WRITTEN, Arg, Where, arguments_of, options_of, plugin_setting
from hardneg.functions.session import usual_store
from hardneg.records import HardnegError, MissingDependency, PluginError, UsageError
from hardneg.registry import OUTSIDE, SINGULARS, entry_points, list_plugins, load_plugin, not_installed, plugin_summary
from hardneg.runtime import check_device, world
from hardneg.store import Store

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


RECIPES, STAGES, RESULTS, AROUND = "Recipes", "Single stages, on plain files", "Results", "What there is"

JSON = typer.Option(False, "--json", help="Print JSON and nothing else.")
OVERWRITE = typer.Option(
    False, "--overwrite", help="Replace existing output, unless it is also an input.", rich_help_panel=WRITTEN
)


_CUTOFFS = (5, 10, 20, 100, 1000)


def complete_recipes() -> list[str]:
    """Recipe names; the shell completes files."""
    return recipes.named_recipes()


def complete_presets(context: typer.Context) -> list[str]:
    """Presets of the recipe on the command line."""
    return _of_recipe(context, lambda source: list(recipes.preset_names(source)))


def complete_stages(context: typer.Context) -> list[str]:
    """Stages of the recipe and preset on the command line."""
    preset = context.params.get("preset")
    return _of_recipe(
        context, lambda source: ["dataset", *(recipes.expand(source, preset, ()).tree.get("stages") or ())]
    )


def _of_recipe(context: typer.Context, read: Callable[[Any], list[str]]) -> list[str]:
    """The result of `read` for the recipe on the command line; empty if the recipe cannot be read."""
    typed = context.args[0] if context.args else None  # if the completed option is last
    name = context.params.get("recipe") or context.params.get("name") or typed
    try:
        return read(recipes.find_recipe(name)) if name else []
    except HardnegError:
        return []


def complete_plugins(kind: str) -> Callable[[], list[str]]:
    """A completer for the installed plugins of a kind."""
    return lambda: [plugin.name for plugin in list_plugins(kind)]


def complete_kinds() -> list[str]:
    """Kinds of plugins, in the singular."""
    return list(SINGULARS)


def complete_named_plugins(context: typer.Context) -> list[str]:
    """Plugins of the kind on the command line."""
    kind = context.params.get("kind") or ""
    return complete_plugins(SINGULARS.get(kind, kind))()


def complete_metrics() -> list[str]:
    """Metrics at the usual cutoffs."""
    return [f"{measure}@{cutoff}" for measure in (*evaluation.metrics.MEASURES, "answer") for cutoff in _CUTOFFS]


def complete_words(*known: str) -> Callable[[], list[str]]:
    """A completer for these words."""
    return lambda: list(known)


def keyword(name: str, **facts: Any) -> Parameter:
    """A keyword-only parameter of a command's function; facts: its default and annotation."""
    return Parameter(name, Parameter.KEYWORD_ONLY, **facts)


def output(written: str, default: Any = ...) -> Any:
    """The option `--output`; written: its help."""
    return typer.Option(default, "--output", "-o", help=written, rich_help_panel=WRITTEN)


def key_values(meaning: str, panel: str | None = None) -> Any:
    """A repeatable option KEY=VALUE; panel: its group in the help."""
    return typer.Option([], metavar="KEY=VALUE", help=meaning, rich_help_panel=panel)


def flag(argument: Arg) -> str:
    """The name of an argument on the command line."""
    return argument.metavar if argument.operand else f"--{argument.flag or argument.name.replace('_', '-')}"


def plain_flag(name: str) -> str:
    """The default name of an argument on the command line."""
    return flag(SHARED[name] if name in SHARED else Arg("", name=name))


def flag_of(function: Callable[..., Any]) -> Callable[[str], str]:
    """A function from argument names to their names in the command of `function`."""
    known = arguments_of(function)
    return lambda name: flag(known[name]) if name in known else plain_flag(name)


def _checked_device(context: typer.Context, device: str | None) -> str | None:
    if device is not None and not context.resilient_parsing:
        check_device(device)
    return device


def option_of(argument: Arg, *default: Any) -> Any:
    """The typer option for an argument; default: for options that are not declared in an annotation."""
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
        callback=_checked_device if argument.name == "device" else None,
        show_default=argument.default not in (REQUIRED, None, ()),
        rich_help_panel=argument.panel or None,
        autocompletion=completed,
    )


SHARED = {**options_of(Where), "plan": Arg("Show the steps, and do nothing.", cli=bool, default=False, name="plan")}
"""Options that commands share, by argument name."""
SET, STORE, DEVICE, ENGINE = (
    option_of(SHARED[name], [] if name == "settings" else SHARED[name].default)
    for name in ("settings", "store", "device", "engine")
)
ENGINE_OPTION = key_values("An option of the engine, such as actors=4.", MACHINE)


def open_store(path: Path | None) -> Store:
    """Open the store at `path` or the default store; a new one at `path` is announced.

    Raises:
        ArtifactError: the path is a file, or cannot be used.
    """
    store = usual_store(path)
    if path is not None and not store.root.exists() and world().rank == 0:
        console.say(f"note: no store at {path} yet; it will be created", err=True)
    return store


def tell_once(line: str) -> None:
    """Print one line on stderr, from the first of several processes only."""
    if world().rank == 0:
        console.say(f"hardneg: {line}", err=True)


def shown(function: Callable[..., Any], shows: Sequence[str]) -> dict[str, Arg]:
    """The arguments of a function's command: those of the function, then the shared ones in `shows`."""
    own = {name: each for name, each in arguments_of(function).items() if name not in SHARED}
    return own | {name: SHARED[name] for name in shows}


def text_of(function: Callable[..., Any]) -> str:
    """The docstring of a function without its `Raises` section."""
    blocks = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(block for block in blocks if not block.startswith("Raises:"))


def shaped(
    function: Callable[..., None], parameters: Sequence[Parameter], text: str, called: Callable[[str], str] = plain_flag
) -> Callable[..., None]:
    """Wrap a function for typer with these options and this help; its errors name arguments by their flags."""

    def run(**args: Any) -> None:
        with console.flags_named(called):
            function(**args)

    run.__doc__, run.__name__ = text, function.__name__.lstrip("_")
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def click_command(name: str, run: Callable[..., None]) -> Any:
    """The click command of a function."""
    app = typer.Typer(add_completion=False)
    app.command(name)(run)
    return typer.main.get_command(app)


def parameters(arguments: Mapping[str, Arg]) -> Iterator[Parameter]:
    """The options for these arguments; one `--option`, after the first plugin, serves all plugins."""
    seen = {""}
    for each in arguments.values():
        yield parameter(each)
        if (name := _options_of(each)) not in seen:
            seen.add(name)
            meaning = f"An option of the {each.name}: KEY=VALUE, or {each.name}.KEY=VALUE."
            yield keyword(name, default=key_values(meaning, each.panel or None), annotation=list[str])


def parameter(each: Arg) -> Parameter:
    """The command-line parameter of an argument."""
    form, said = list[str] if get_origin(each.cli) is dict else each.cli, option_of(each)
    if each.default is REQUIRED:
        return keyword(each.name, annotation=Annotated[form, said])
    default = None if get_origin(form) is list else each.default
    return keyword(each.name, default=default, annotation=Annotated[form | None if default is None else form, said])


def _options_of(argument: Arg) -> str:
    """The parameter that takes the plugin's options; empty for other arguments."""
    names = {"": "", "datasets": "", "engines": "engine_option"}
    return names.get(argument.plugin, "option")


def plugin_options(texts: Sequence[str], option: str = "--option") -> dict[str, Any]:
    """The options in KEY=VALUE texts, each value parsed as YAML.

    Raises:
        UsageError: a text is not KEY=VALUE, or its value is not YAML.
    """
    options = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UsageError(f"{option} {text}: must be KEY=VALUE")
        try:
            options[key] = recipes.parse_setting(value)
        except ValueError as error:
            raise UsageError(f"{option} {key}: {error}") from None
    return options


def values(arguments: Mapping[str, Arg], args: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a function's own arguments by name, converted from the command line.

    Raises:
        UsageError: a text has the wrong form, or an option belongs to a plugin that was not given.
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
            raise UsageError(f"--option {path}: no such plugin in this command; it has: {', '.join(names)}")
        plugin, key = (plugin, key) if dot else (names[0], path)
        if plugin not in read:
            raise UsageError(f"--option {key}: an option of {{{plugin}}}, which was not given", plugin)
        read[plugin] = {**plugin_setting(plugin, read[plugin]), key: value}
    return read


def _mapping(argument: Arg, texts: Sequence[str]) -> dict[str, Any]:
    """The values of a repeatable NAME=VALUE option: YAML, numbers, or lists of numbers."""
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
            raise UsageError(f"{text}: must be NAME=NUMBER")
        read[name] = numbers if several else numbers[0]
    return read


class PackageGroup(TyperGroup):
    """A command group with the commands of installed packages; for a missing command it names the package.

    An entry point of two words, such as `recipe verify`, is a command of that group. The help imports no package.
    """

    kind, panel = "apps", "Of installed packages"
    lacking: ClassVar[type[HardnegError]] = MissingDependency
    _helping = False

    def made(self, point: "EntryPoint") -> Any:
        """The command of an entry point."""
        try:
            return click_command(point.name.rpartition(" ")[2], point.load())
        except ImportError as error:
            raise PluginError(f"the command {point.name!r} ({point.value}) cannot be imported ({error})") from error

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of built-in commands, then those of packages."""
        own = super().list_commands(ctx)
        return [*own, *sorted({*self._brought()} - {*own})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or a stub with its summary for the help."""
        if cmd_name in super().list_commands(ctx) or cmd_name not in (brought := self._brought()):
            return super().get_command(ctx, cmd_name)
        point = brought[cmd_name]
        if not self._helping:
            return self.made(point)
        summary = f"{plugin_summary(point.value) or 'It has no summary'}."
        return TyperCommand(cmd_name, callback=None, help=summary, rich_help_panel=self.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The requested command; the error for an unknown one suggests similar names, including those of packages."""
        own = self.list_commands(ctx)
        if args[:1] and args[0] not in own and not args[0].startswith("-") and not ctx.resilient_parsing:
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
    """The installed analyses, each a command made from its fields when it is called."""

    kind, panel, lacking = "analyses", "Analyses", PluginError

    def made(self, point: "EntryPoint") -> Any:
        """The click command for an analysis."""
        from hardneg.cli.analysis_command import command_of

        return command_of(load_plugin("analyses", point.name))


analyses = typer.Typer(
    cls=_Analyses,
    help="Explain the metrics: errors, drift and filters of negatives, overlaps, wins, costs.",
    no_args_is_help=True,
)
