"""The commands of lines, each made from its line when it is called; listing them imports none."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hardneg.cli.options import RECIPES, RESULTS, STAGES, flags_named, plain_flag
from hardneg.lines.installed import line_of

if TYPE_CHECKING:
    from hardneg.lines.base import Line


PRINTED = {"evaluate": "hardneg.cli.evaluate", "report": "hardneg.cli.report"}
"""Commands that have a line's options and print more than a result, or write a page: the modules that they are in."""
_PANELS = {"recommend": RECIPES, **dict.fromkeys(PRINTED, RESULTS)}
"""In the help, of commands that are no single stages."""


class LineGroup(TyperGroup):
    """A group whose commands are its own and those of lines; its help reads the first sentence of each line alone."""

    _own: dict[str, Any]
    _helping = False

    @property
    def lines(self) -> Mapping[str, str]:
        """The classes of lines, and the functions of `PRINTED`, by commands: those that the group does not have."""
        from hardneg.lines.installed import line_targets

        targets = {**line_targets(), **{name: f"{module}:{name}" for name, module in PRINTED.items()}}
        return {name: target for name, target in targets.items() if name not in self._own}

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All of them."""
        return LazyCommands(self._own, lambda: self.lines, self._build)

    @commands.setter
    def commands(self, value: Any) -> None:
        self._own = dict(value)

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names; none is made."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or what the help says of it."""
        if not self._helping or cmd_name in self._own:
            return self.commands.get(cmd_name)
        from hardneg.registry.plugin_help import plugin_summary

        summary, panel = plugin_summary(self.lines[cmd_name]), _PANELS.get(cmd_name, STAGES)
        return TyperCommand(cmd_name, callback=lambda: None, help=f"{summary}.", rich_help_panel=panel)

    def _build(self, name: str) -> Any:
        return printed_command(name) if name in PRINTED else command_of(line_of(name), name)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; its errors call arguments by flags."""
        with flags_named(plain_flag):
            return super().invoke(ctx)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of the commands."""
        self._helping = True
        super().format_help(ctx, formatter)


class IndexGroup(LineGroup):
    """That of `hardneg index`."""

    @property
    def lines(self) -> Mapping[str, str]:
        """The line that builds one."""
        return {"build": "hardneg.lines.index:IndexLine"}

    def _build(self, name: str) -> Any:
        return command_of(line_of("index"), name)


class LazyCommands(MutableMapping[str, Any]):
    """Commands that are there already, and others by name, each made when it is looked up."""

    def __init__(self, own: dict[str, Any], names: Callable[[], Iterable[str]], make: Callable[[str], Any]) -> None:
        self._own, self._names, self._make = own, names, make

    def __iter__(self) -> Iterator[str]:
        return iter([*self._own, *self._names()])

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in self._own and name not in self._names():
            raise KeyError(name)
        return self._own[name] if name in self._own else self._make(name)

    def __setitem__(self, name: str, command: Any) -> None:
        self._own[name] = command

    def __delitem__(self, name: str) -> None:
        del self._own[name]


def command_of(line: "type[Line]", name: str) -> Any:
    """The command of a line."""
    from hardneg.cli.line_options import flag_of, parameters
    from hardneg.cli.line_outputs import outputs
    from hardneg.lines.functions import parts

    def run(**args: Any) -> None:
        with flags_named(flag_of(line)):
            _run(line, args)

    text, _, examples = parts(line)
    return build_command(name, run, [*parameters(line), *outputs(line)], "\n\n".join([text, *examples]))


def printed_command(name: str) -> Any:
    """A command of `PRINTED`."""
    from hardneg.cli.line_options import flag_of
    from hardneg.lines.evaluate import EvaluateLine
    from hardneg.lines.functions import parts

    module = import_module(PRINTED[name])
    function = getattr(module, name)

    def run(**args: Any) -> None:
        with flags_named(flag_of(EvaluateLine)):
            function(**args)

    first, *more = inspect.cleandoc(function.__doc__ or "").split("\n\n")
    text, _, _ = parts(EvaluateLine)
    paragraphs = [text if text.startswith(first) else first, *more]
    return build_command(name, run, list(module.options()), "\n\n".join(paragraphs))


def build_command(name: str, run: Callable[..., None], parameters: list[inspect.Parameter], docstring: str) -> Any:
    """The command of a function with these options, said by its docstring."""
    run.__doc__ = docstring
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    app = typer.Typer(add_completion=False)
    app.command(name)(run)
    return typer.main.get_command(app)


def _run(line: "type[Line]", args: Mapping[str, Any]) -> None:
    """Makes the result in the processes that were asked for; the first one writes it at the output, and speaks."""
    from hardneg.cli.engines import run_options
    from hardneg.cli.launch import launched, together
    from hardneg.cli.line_options import values
    from hardneg.cli.line_outputs import output_of
    from hardneg.cli.planned_work import planned_work
    from hardneg.cli.recipe_plan import show_plan

    output = output_of(line, args)
    output.check()
    line_args = line.checked(values(line, args))
    run_with = run_options(*map(args.get, ("store", "device", "processes", "engine", "engine_option")))
    if launched(run_with.processes, run_with.device):
        return
    with together(run_with.device) as device:
        opened = replace(run_with, device=device, settings=args.get("settings") or ()).opened()
        job = line().job(line_args, opened)
        if args.get("plan") and (recipe := job.ahead or job.recipe):
            return show_plan(recipe, opened, args.get("as_json", False))
        command, overwrite = line.words or line.name, args["overwrite"]
        with planned_work(command, job, opened, output.targets, overwrite) as work, work.somewhere() as workplace:
            result = job.make(work.plan, workplace)
            if result is not None:
                output.write(result, work.outputs)
