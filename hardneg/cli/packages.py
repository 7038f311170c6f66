"""Commands that packages bring by entry points, and those of analyses; the help lists them and imports none.

An entry point of two words, `recipe verify`, is a command of that group.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from hardneg.cli.adaptor import click_command
from hardneg.records import HardnegError, MissingDependency, PluginError
from hardneg.registry import OUTSIDE, entry_points, load_plugin, not_installed, plugin_summary

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PackageGroup(TyperGroup):
    """A group that has the commands of installed packages after its own, and says what to install for others."""

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
        """All names; no package is imported."""
        own = super().list_commands(ctx)
        return [*own, *sorted({*self._brought()} - {*own})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or what the help says of it."""
        if cmd_name in super().list_commands(ctx) or cmd_name not in (brought := self._brought()):
            return super().get_command(ctx, cmd_name)
        point = brought[cmd_name]
        if not self._helping:
            return self.made(point)
        summary = f"{plugin_summary(point.value) or 'It has no summary'}."
        return TyperCommand(cmd_name, callback=None, help=summary, rich_help_panel=self.panel)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of a line; a mistyped one is told with all that are alike, those of packages too."""
        own = self.list_commands(ctx)
        if args[:1] and args[0] not in own and not args[0].startswith("-") and not ctx.resilient_parsing:
            if where := not_installed(self.kind, self._within() + args[0]):
                raise self.lacking(f"the command {self._within() + args[0]!r} is {where}")
            known = [*own, *(name for kind, name in OUTSIDE if kind == self.kind)]
            alike = ", ".join(map(repr, dict.fromkeys(get_close_matches(args[0], known))))
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {alike}?' if alike else ''}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of the commands."""
        self._helping = True
        super().format_help(ctx, formatter)

    def _within(self) -> str:
        """The first word of this group's commands, and a space; empty for the group of all."""
        return f"{self.name} " if any(name.startswith(f"{self.name} ") for _, name in OUTSIDE) else ""

    def _brought(self) -> "dict[str, EntryPoint]":
        """The commands of packages in this group, by the last word of their names."""
        within, points = self._within(), [(point.name.rpartition(" "), point) for point in entry_points(self.kind)]
        return {name: point for (of, space, name), point in points if of + space == within}


class _Analyses(PackageGroup):
    """The installed analyses: a command is made from the fields of one when it is called."""

    kind, panel, lacking = "analyses", "Analyses", PluginError

    def made(self, point: "EntryPoint") -> Any:
        """The command of an analysis."""
        from hardneg.cli.analysis_command import command_of

        return command_of(load_plugin("analyses", point.name))


analyses = typer.Typer(
    cls=_Analyses,
    help="Explain the metrics: errors, drift and filters of negatives, overlaps, wins, costs.",
    no_args_is_help=True,
)
