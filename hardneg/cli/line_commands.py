"""The commands of lines, each made from its line when it is called; listing them imports none."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hardneg.cli.console import say
from hardneg.cli.options import RESULTS, STAGES, flags_told, plain_flag
from hardneg.lines.installed import line_of
from hardneg.records.errors import PartDone

if TYPE_CHECKING:
    from hardneg.lines.base import Line


PRINTED = {"evaluate": "hardneg.cli.evaluate", "report": "hardneg.cli.report"}
"""Commands that have a line's options and print more than a result, or write a page: the modules that they are in."""


class LineGroup(TyperGroup):
    """A group whose commands are its own and those of lines; its help reads the first sentence of each line alone."""

    _own: dict[str, Any]
    _helping = False

    @property
    def lines(self) -> Mapping[str, str]:
        """The classes of lines, and the functions of `PRINTED`, by commands: those that the group does not have."""
        from hardneg.lines.installed import line_targets

        made = {**line_targets(), **{name: f"{module}:{name}" for name, module in PRINTED.items()}}
        return {name: target for name, target in made.items() if name not in self._own}

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All of them."""
        return LazyCommands(self._own, lambda: self.lines, self._made)

    @commands.setter
    def commands(self, given: Any) -> None:
        self._own = dict(given)

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names; none is made."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or what the help says of it."""
        if not self._helping or cmd_name in self._own:
            return self.commands.get(cmd_name)
        from hardneg.registry.plugin_help import plugin_summary

        told, panel = plugin_summary(self.lines[cmd_name]), RESULTS if cmd_name in PRINTED else STAGES
        return TyperCommand(cmd_name, callback=lambda: None, help=f"{told}.", rich_help_panel=panel)

    def _made(self, name: str) -> Any:
        return printed_command(name) if name in PRINTED else command_of(line_of(name), name)

    def invoke(self, ctx: Any) -> Any:
        """Runs a command; its errors call arguments by flags."""
        with flags_told(plain_flag):
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

    def _made(self, name: str) -> Any:
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

    def run(**given: Any) -> None:
        with flags_told(flag_of(line)):
            _run(line, given)

    text, _, examples = parts(line)
    return made_command(name, run, [*parameters(line), *outputs(line)], "\n\n".join([text, *examples]))


def printed_command(name: str) -> Any:
    """A command of `PRINTED`."""
    from hardneg.cli.line_options import flag_of
    from hardneg.lines.evaluate import EvaluateLine
    from hardneg.lines.functions import parts

    module = import_module(PRINTED[name])
    function = getattr(module, name)

    def run(**given: Any) -> None:
        with flags_told(flag_of(EvaluateLine)):
            function(**given)

    first, *more = inspect.cleandoc(function.__doc__).split("\n\n")
    text, _, _ = parts(EvaluateLine)
    told = [text if text.startswith(first) else first, *more]
    return made_command(name, run, list(module.options()), "\n\n".join(told))


def made_command(name: str, run: Callable[..., None], asked: list[inspect.Parameter], told: str) -> Any:
    """The command of a function with these options, said by its docstring."""
    run.__doc__ = told
    run.__annotations__ = {each.name: each.annotation for each in asked}
    run.__signature__ = inspect.Signature(asked)  # type: ignore[attr-defined]
    made = typer.Typer(add_completion=False)
    made.command(name)(run)
    return typer.main.get_command(made)


def _run(line: "type[Line]", given: Mapping[str, Any]) -> None:
    """Makes the result in the processes that were asked for; the first one writes it at the output, and speaks."""
    from hardneg.cli.engines import place_of
    from hardneg.cli.launch import launched, together
    from hardneg.cli.line_options import values
    from hardneg.cli.line_outputs import output_of
    from hardneg.cli.planned_work import planned_work

    output = output_of(line, given)
    output.check()
    taken = line.checked(values(line, given))
    asked = place_of(*map(given.get, ("store", "device", "processes", "engine", "engine_option")))
    if launched(asked.processes, asked.device):
        return
    with together(asked.device) as device:
        opened = replace(asked, device=device, settings=given.get("settings") or ()).opened()
        job = line().job(taken, opened)
        command, overwrite = line.words or line.name, given["overwrite"]
        with planned_work(command, job, opened, output.targets, overwrite) as work, work.somewhere() as place:
            try:
                made = job.make(work.plan, place)
            except PartDone as done:
                return say(str(done))
            if made is not None:
                output.write(made, work.outputs)
