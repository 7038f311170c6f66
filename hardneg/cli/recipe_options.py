"""What the commands of recipes share: their arguments, and how a recipe becomes a plan."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from hardneg.api.adhoc_recipe import planned_recipe
from hardneg.cli import completion
from hardneg.cli.options import tell_once
from hardneg.records.errors import HardnegError, UsageError

if TYPE_CHECKING:
    from hardneg.recipe.plan import Plan

NAME = typer.Argument(help="A recipe's name, or the path of a recipe file.", autocompletion=completion.recipes)
PRESET = typer.Option(
    None,
    "--preset",
    "-p",
    help="`demo` (the default: minutes, no network), `paper`, or another preset of the recipe.",
    autocompletion=completion.presets,
)
SET = typer.Option(
    [],
    "--set",
    metavar="PATH=VALUE",
    help="Change one value, such as stages.star.options.epochs=2.",
    autocompletion=completion.settings,
)


def planned(name: str, preset: str | None, settings: list[str], problems: list[HardnegError] | None = None) -> "Plan":
    """The plan of a recipe; prints its notes."""
    return planned_recipe(name, preset, settings, tell_once, problems)


def check_stages(plan: "Plan", until: str | None, force: Sequence[str] = ()) -> None:
    """All mistakes in the names of stages, before anything is printed or made."""
    named = [("--until", until), *(("--force", name) for name in force)]
    problems = []
    for option, name in named:
        try:
            plan.until(name)
        except UsageError as error:
            problems.append(f"{option} {name}: {error}")
    if problems:
        raise UsageError("\n".join(problems))


def headline(plan: "Plan") -> str:
    """The recipe's name and preset, and the others that it has."""
    from hardneg.recipe.language import preset_names

    others = [preset for preset in preset_names(plan.recipe.source) if preset != plan.recipe.preset]
    other = f"; the other{'s' if others[1:] else ''}: --preset {' or '.join(others)}" if others else ""
    return f"recipe {plan.recipe.name}" + (f", preset {plan.recipe.preset}{other}" if plan.recipe.preset else "")
