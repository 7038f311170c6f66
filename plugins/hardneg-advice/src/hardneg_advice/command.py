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


def _recipe(output: Path) -> Path:
    if output.suffix != ".yaml":
        raise errors.UsageError(f"{output}: the name of a recipe must end in .yaml")
    return output


class RecommendCommand(Command):
    """The command `recommend`, which writes a recipe and explains the choice."""

    output = typer.Option(
        "recommended.yaml", "--output", "-o", help="Recipe to write, NAME.yaml.", callback=_recipe,
        rich_help_panel="What is written",
    )  # fmt: skip

    def options(self) -> Iterator[Parameter]:
        """Yield the usual options and `--json`."""
        yield from super().options()
        yield Parameter("as_json", Parameter.KEYWORD_ONLY, default=_JSON, annotation=bool)

    def targets(self, args: Mapping[str, Any]) -> list[stores.Target]:
        """Return the recipe file, the only output."""
        return [stores.Target(args["output"])]

    def write(self, args: Mapping[str, Any], result: Any, session: Any) -> None:
        """Write the recipe, and print the choice and its reasons."""
        output = args["output"]
        with replace(session.outputs, keys=result.keys).publish():
            stores.replace_text(output, result.recipe(output))
        if args["as_json"]:
            return terminal.say(json.dumps({"recipe": str(output), **result.to_dict()}, ensure_ascii=False, indent=1))
        terminal.say(result.answer())
        terminal.print_section(terminal.stdout_console(), result.section())
        terminal.say(f"{output}: written; to run it: hardneg recipe run {output}")


class BenchCommand(Command):
    """The command `bench`, which prints the table of results and writes the result folder."""

    def write(self, args: Mapping[str, Any], result: Any, session: Any) -> None:
        """Print the table and write the result folder."""
        terminal.say(result.text)
        super().write(args, result, session)


recommend = RecommendCommand(_recommend, (*_SHOWN, "plan")).command("recommend")
"""Choose how to train on a collection by comparing short training runs, and write the recipe with the evidence."""
bench = BenchCommand(_bench, _SHOWN).command("bench")
"""Compare files of negatives from any program by training with each one, and with random and in-batch negatives."""


def diagnose(
    folder: Path = typer.Argument(..., metavar="RUNFOLDER", help="Run folder of a finished recipe."),
    store: str | None = typer.Option(None, help="Artifact store; default $HARDNEG_STORE, else ~/.cache/hardneg/store."),
    as_json: bool = _JSON,
) -> None:
    """Check why training did not help, or made results worse, and suggest changes.

    The exit code is 0 whatever the checks find. Artifacts missing from the store are listed but not checked.

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
    terminal.say_next(diagnosis.next)
