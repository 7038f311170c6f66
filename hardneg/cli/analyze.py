"""`hardneg analyze NAME`: what lies behind the metrics, a command for each installed analysis."""

from typing import TYPE_CHECKING, Any

import typer

from hardneg.cli.packages import PackageGroup
from hardneg.records import PluginError
from hardneg.registry import load_plugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class _Analyses(PackageGroup):
    """The installed analyses: a command is made from the fields of one when it is called."""

    kind, panel, lacking = "analyses", "Analyses", PluginError

    def made(self, point: "EntryPoint") -> Any:
        """The command of an analysis."""
        from hardneg.cli.analysis_command import command_of

        return command_of(load_plugin("analyses", point.name))


app = typer.Typer(
    cls=_Analyses,
    help="Explain the metrics: errors, drift and filters of negatives, overlaps, wins, costs.",
    no_args_is_help=True,
)
