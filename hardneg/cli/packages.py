"""Commands that packages bring by the entry points `hardneg.apps`; the help lists them and imports none.

An entry point of two words, `recipe verify`, is a command of that group.
"""

from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from hardneg.cli.options import RESULTS
from hardneg.records.errors import MissingDependency, PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "apps"
OWN = {
    "browse": (
        "hardneg-browse",
        "Look at negatives in a browser: what was mined, what was left out, what may be relevant after all.",
    ),
    "data check": (
        "hardneg-datasets",
        "Report every mistake of a dataset with its file and line; exit code 4 where there are errors.",
    ),
    "data fetch": (
        "hardneg-datasets",
        "Download a dataset's published files, resuming where it stopped, and check the size and digest of each.",
    ),
    "mteb": (
        "hardneg-mteb",
        "Evaluate models on mteb's tasks, with hardneg's encoding, indexes and search; what is done is not done again.",
    ),
    "recipe verify": (
        "hardneg-papers",
        "Compare a finished run with the bands of its recipe: means and their spread over seeds.",
    ),
    "push": (
        "hardneg-hub",
        "Upload a model, an index, negatives or runs to the Hugging Face hub, with a card; nothing private goes along.",
    ),
}
"""Commands of packages in the folder `plugins` of a checkout: the package, and a line of help."""


class PackageGroup(TyperGroup):
    """A group that has the commands of packages after its own."""

    _helping = False

    def list_commands(self, ctx: Any) -> list[str]:
        """All names; no package is imported."""
        own = super().list_commands(ctx)
        return [*own, *sorted({*self._brought()} - {*own})]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command; one of a package that is not installed says how to install it."""
        if cmd_name in super().list_commands(ctx) or cmd_name not in (brought := self._brought()):
            return super().get_command(ctx, cmd_name)
        words, points = brought[cmd_name], _points()
        if self._helping:
            return TyperCommand(cmd_name, callback=None, help=_summary(words, points), rich_help_panel=RESULTS)
        if words in points:
            return _loaded(points[words])
        anything = {"ignore_unknown_options": True, "allow_extra_args": True}
        return TyperCommand(
            cmd_name,
            callback=lambda: _lacking(words),
            help=OWN[words][1],
            context_settings=anything,
            add_help_option=False,
        )

    def _brought(self) -> dict[str, str]:
        """The names of packages' commands in this group, and all their words."""
        group = self.name if self.name in {words.partition(" ")[0] for words in OWN if " " in words} else ""
        found = {words: words.rpartition(" ") for words in [*OWN, *_points()]}
        return {name: words for words, (of, _, name) in found.items() if of == group}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of the commands."""
        self._helping = True
        super().format_help(ctx, formatter)


def _points() -> "dict[str, EntryPoint]":
    from hardneg.registry.plugins import entry_points

    return {point.name: point for point in entry_points(GROUP)}


def _summary(name: str, points: "dict[str, EntryPoint]") -> str:
    if name in OWN:
        return OWN[name][1]
    from hardneg.registry.plugin_help import plugin_summary

    return f"{plugin_summary(points[name].value)}."


def _loaded(point: "EntryPoint") -> Any:
    try:
        function = point.load()
    except ImportError as error:
        raise PluginError(f"the command {point.name!r} ({point.value}) cannot be imported ({error})") from error
    app = typer.Typer(add_completion=False)
    app.command(point.name.rpartition(" ")[2])(function)
    return typer.main.get_command(app)


def _lacking(name: str) -> NoReturn:
    raise MissingDependency(f"{name}: pip install ./plugins/{OWN[name][0]}, from a checkout of hardneg")
