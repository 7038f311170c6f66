"""`hardneg analyze NAME`: what lies behind the metrics, a command for each installed analysis.

A command is made from the fields of its analysis when it is called; listing them imports none.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from hardneg.cli.adaptor import click_command, shaped
from hardneg.cli.console import print_section, say_json, stdout_console
from hardneg.cli.options import JSON, OVERWRITE, WRITTEN, flags_named, keyword
from hardneg.cli.planned_work import store_outputs
from hardneg.records.layout import LOCK
from hardneg.store.replaced_files import Target

if TYPE_CHECKING:
    from hardneg.analysis.base import Analysis


class _Commands(MutableMapping[str, Any]):
    """The commands by name, each made when it is looked up."""

    def __iter__(self) -> Iterator[str]:
        from hardneg.registry.plugins import plugin_names

        return iter(plugin_names("analyses"))

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Any:
        if name not in set(self):
            raise KeyError(name)
        from hardneg.registry.plugins import load_plugin

        return command_of(load_plugin("analyses", name))

    def __setitem__(self, name: str, command: Any) -> None:
        raise TypeError("analyses are found by their entry points")

    __delitem__ = __setitem__  # type: ignore[assignment]


class _Analyses(TyperGroup):
    """Looks commands up among the installed analyses; for its help it reads the first sentence of each alone."""

    summaries: Mapping[str, str] = {}

    @property
    def commands(self) -> MutableMapping[str, Any]:
        """All of them."""
        return _Commands()

    @commands.setter
    def commands(self, value: Any) -> None:
        """There are no others."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all."""
        return list(self.commands)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command, or what the help says of it."""
        if summary := self.summaries.get(cmd_name):
            return TyperCommand(cmd_name, callback=lambda: None, help=summary)
        command = self.commands.get(cmd_name)
        if command is None and not ctx.resilient_parsing:
            from hardneg.records.errors import PluginError
            from hardneg.registry.plugins import not_installed

            if where := not_installed("analyses", cmd_name):
                raise PluginError(f"the analysis {cmd_name!r} is {where}")
        return command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of the analyses."""
        from hardneg.registry.plugins import list_plugins, plugin_summary

        by_name = {plugin.name: plugin_summary(plugin.target) for plugin in list_plugins("analyses")}
        self.summaries = {name: f"{summary or 'It has no summary'}." for name, summary in by_name.items()}
        super().format_help(ctx, formatter)


app = typer.Typer(
    cls=_Analyses,
    help="Explain the metrics: errors, drift and filters of negatives, overlaps, wins, costs.",
    no_args_is_help=True,
)


def command_of(chosen: "type[Analysis]") -> Any:
    """The command of an analysis."""
    from hardneg.cli.analysis_options import flag_of, parameters

    def run(**args: Any) -> None:
        with flags_named(flag_of(chosen)):
            _run(chosen, args)

    plot = typer.Option("--plot", metavar="PATH", help="Draw a figure: .png, .svg or .pdf.", rich_help_panel=WRITTEN)
    outputs = [
        keyword("as_json", default=JSON, annotation=bool),
        keyword("plot", default=None, annotation=Annotated[Path | None, plot]),
        keyword("overwrite", default=OVERWRITE, annotation=bool),
    ]
    return click_command(chosen.name, shaped(run, [*parameters(chosen), *outputs], chosen.__doc__ or ""))


def _run(chosen: "type[Analysis]", args: dict[str, Any]) -> None:
    from hardneg.cli.analysis_options import read_files, with_files
    from hardneg.registry.plugins import plugin_errors
    from hardneg.report.table import Section

    analysis, files = with_files(chosen, args)
    plot: Path | None = args["plot"]
    if plot:
        from hardneg.report.figure import check_forms

        check_forms([plot])
        reads = [path / LOCK if (path / LOCK).is_file() else path for path in read_files(files)]
        store_outputs("analyze", [Target(plot)], reads, args["overwrite"]).check()  # a run folder may hold figures too
    with plugin_errors([analysis]):
        numbers = analysis.measure(files)
        if plot:
            with store_outputs("analyze", [Target(plot)], [], True).laid_out():
                analysis.draw(numbers, [plot])
        if args["as_json"]:
            say_json(numbers)
        else:
            print_section(stdout_console(), Section("", analysis.tables(numbers), analysis.explain(numbers)))
