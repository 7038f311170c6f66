"""Commands that packages bring by the entry points `hardneg.apps`; the help lists them and imports none.

An entry point of two words, `recipe verify`, is a command of that group.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NoReturn

from typer.core import TyperCommand, TyperGroup

from hardneg.cli.adaptor import click_command
from hardneg.cli.options import RECIPES, RESULTS, STAGES
from hardneg.records.errors import MissingDependency, PluginError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "apps"
OWN: dict[str, tuple[str, str, str | None]] = {
    "bench": (
        "hardneg-advice",
        "Judge files of negatives, mined by any program: train with them, and compare with random and in-batch ones.",
        STAGES,
    ),
    "browse": (
        "hardneg-browse",
        "Look at negatives in a browser: what was mined, what was left out, what may be relevant after all.",
        RESULTS,
    ),
    "data check": (
        "hardneg-datasets",
        "Report every mistake of a dataset with its file and line; exit code 4 where there are errors.",
        None,
    ),
    "data fetch": (
        "hardneg-datasets",
        "Download a dataset's published files, resuming where it stopped, and check the size and digest of each.",
        None,
    ),
    "diagnose": (
        "hardneg-advice",
        "Check why a training did not help, or made things worse: figures, and what to change.",
        RESULTS,
    ),
    "mteb": (
        "hardneg-mteb",
        "Evaluate models on mteb's tasks, with hardneg's encoding, indexes and search; what is done is not done again.",
        RESULTS,
    ),
    "push": (
        "hardneg-hub",
        "Upload a model, an index or negatives to the Hugging Face hub, with a card; nothing private goes along.",
        RESULTS,
    ),
    "recipe verify": (
        "hardneg-papers",
        "Compare a finished run with the bands of its recipe: means and their spread over seeds.",
        None,
    ),
    "recommend": (
        "hardneg-advice",
        "Choose how to train for a collection by short trainings, show why, and write a recipe that trains so.",
        RECIPES,
    ),
}
"""Commands of packages in the folder `plugins` of a checkout: the package, a line of help, and the panel it is in."""


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
            panel = OWN[words][2] if words in OWN else RESULTS
            return TyperCommand(cmd_name, callback=None, help=_summary(words, points), rich_help_panel=panel)
        if words in points:
            point = points[words]
            try:
                return click_command(cmd_name, point.load())
            except ImportError as error:
                raise PluginError(f"the command {words!r} ({point.value}) cannot be imported ({error})") from error
        anything = {"ignore_unknown_options": True, "allow_extra_args": True}

        def lacking() -> NoReturn:
            from hardneg.registry.plugins import install_command

            raise MissingDependency(f"{words}: {install_command(OWN[words][0])}")

        return TyperCommand(
            cmd_name, callback=lacking, help=OWN[words][1], context_settings=anything, add_help_option=False
        )

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of a line; a mistyped one is told with all that are alike, those of packages too."""
        known = self.list_commands(ctx)
        if args[:1] and args[0] not in known and not args[0].startswith("-") and not ctx.resilient_parsing:
            alike = ", ".join(map(repr, get_close_matches(args[0], known)))
            ctx.fail(f"No such command {args[0]!r}.{f' Did you mean {alike}?' if alike else ''}")
        return super().resolve_command(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The list of the commands."""
        self._helping = True
        super().format_help(ctx, formatter)

    def _brought(self) -> dict[str, str]:
        """The names of packages' commands in this group, and all their words."""
        group = self.name if self.name in {words.partition(" ")[0] for words in OWN if " " in words} else ""
        found = {words: words.rpartition(" ") for words in [*OWN, *_points()]}
        return {name: words for words, (of, _, name) in found.items() if of == group}


def _points() -> "dict[str, EntryPoint]":
    from hardneg.registry.plugins import entry_points

    return {point.name: point for point in entry_points(GROUP)}


def _summary(name: str, points: "dict[str, EntryPoint]") -> str:
    if name in OWN:
        return OWN[name][1]
    from hardneg.registry.plugins import plugin_summary

    return f"{plugin_summary(points[name].value)}."
