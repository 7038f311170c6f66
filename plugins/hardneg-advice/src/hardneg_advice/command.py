"""`hardneg recommend`, `hardneg bench` and `hardneg diagnose`."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from inspect import Parameter
from pathlib import Path
from typing import Any

import typer

from hardneg.plugin import Command, errors, stores, terminal
from hardneg_advice import bench as _bench, diagnose as _diagnose, recommend as _recommend

_SHOWN = ("settings", "store", "device")
_JSON = typer.Option(False, "--json", help="Print JSON and nothing else.")


class RecommendCommand(Command):
    """Writes a recipe with the negatives that it was written for, and says why."""

    output = typer.Option(
        "recommended.yaml", "--output", "-o", help="The recipe to write, NAME.yaml.", rich_help_panel="Output"
    )

    def options(self) -> Iterator[Parameter]:
        """As others, and JSON."""
        yield from super().options()
        yield Parameter("as_json", Parameter.KEYWORD_ONLY, default=_JSON, annotation=bool)

    def targets(self, args: Mapping[str, Any]) -> list[stores.Target]:
        """The recipe."""
        if args["output"].suffix != ".yaml":
            raise errors.UsageError(f"{args['output']}: must be a recipe; use a name that ends in .yaml")
        return [stores.Target(args["output"])]

    def write(self, args: Mapping[str, Any], result: Any, session: Any) -> None:
        """Write it, and tell what was chosen, and why."""
        output = args["output"]
        with replace(session.outputs, keys=result.keys).laid_out():
            stores.replace_text(output, result.recipe(output))
        if args["as_json"]:
            return terminal.say(json.dumps({"recipe": str(output), **result.to_dict()}, ensure_ascii=False, indent=1))
        terminal.say(result.answer())
        self.show(result.section())
        terminal.say(f"{output}: hardneg recipe run {output}")


class BenchCommand(Command):
    """Prints a table."""

    def lines(self, result: Any) -> Iterator[str]:
        """The table."""
        yield result.text


recommend = RecommendCommand(_recommend, (*_SHOWN, "plan")).command("recommend")
"""Choose how to train for a collection by short trainings, show why, and write a recipe that trains so."""
bench = BenchCommand(_bench, _SHOWN).command("bench")
"""Judge files of negatives, mined by any program: train with them, and compare with random and in-batch ones."""


def diagnose(
    folder: Path = typer.Argument(..., metavar="RUNFOLDER", help="The folder of a finished recipe."),
    store: str | None = typer.Option(None, help="The artifact store; default $HARDNEG_STORE or the usual one."),
    as_json: bool = _JSON,
) -> None:
    """Check why a training did not help, or made things worse: figures, and what to change.

    Exits with 0 whatever the checks say. What the store lacks is named, and not checked.

    Example: hardneg diagnose runs/star-passage-demo
    """
    diagnosis = _diagnose(folder, store)
    if as_json:
        return terminal.say(json.dumps(diagnosis.to_dict(), ensure_ascii=False, indent=1))
    unknown = sum(each.state == "unknown" for each in diagnosis.results)
    terminal.say(f"{len(diagnosis.suspect)} of {len(diagnosis.results)} checks suspect, {unknown} unknown")
    states = ("suspect", "unknown", "fine")
    for each in sorted(diagnosis.results, key=lambda each: states.index(each.state)):
        subject = f" ({each.subject})" if each.subject else ""
        terminal.say(f"{each.state:<7}  {each.check}{subject}: {each.sentence}")
        if each.advice:
            terminal.say(f"         -> {each.advice}")
