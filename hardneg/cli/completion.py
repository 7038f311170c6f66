"""What the Tab key completes: recipes, presets, stages, plugins, forms, metrics. Nothing heavy is imported."""

from collections.abc import Callable
from typing import Any

import typer

from hardneg.records import HardnegError
from hardneg.registry import SINGULARS, list_plugins

_CUTOFFS = (5, 10, 20, 100, 1000)


def recipes() -> list[str]:
    """The names of recipes; files are completed by the shell."""
    from hardneg.recipes import named_recipes

    return named_recipes()


def presets(context: typer.Context) -> list[str]:
    """Those of the recipe that stands on the line."""
    from hardneg.recipes import preset_names

    return _of_recipe(context, lambda source: list(preset_names(source)))


def stages(context: typer.Context) -> list[str]:
    """Those of the recipe that stands on the line, with its preset."""
    from hardneg.recipes import expand

    preset = context.params.get("preset")
    return _of_recipe(context, lambda source: ["dataset", *(expand(source, preset, ()).tree.get("stages") or ())])


def _of_recipe(context: typer.Context, read: Callable[[Any], list[str]]) -> list[str]:
    """What is read of the recipe that stands on the line; nothing where it cannot be read."""
    from hardneg.recipes import find_recipe

    typed = context.args[0] if context.args else None  # where the option that is completed stands last
    name = context.params.get("recipe") or context.params.get("name") or typed
    try:
        return read(find_recipe(name)) if name else []
    except HardnegError:
        return []


def plugins(kind: str) -> Callable[[], list[str]]:
    """Completes the installed plugins of a kind."""
    return lambda: [plugin.name for plugin in list_plugins(kind)]


def kinds() -> list[str]:
    """The kinds of plugins, in the singular."""
    return list(SINGULARS)


def named_plugins(context: typer.Context) -> list[str]:
    """The plugins of the kind that stands on the line."""
    kind = context.params.get("kind") or ""
    return plugins(SINGULARS.get(kind, kind))()


def metrics() -> list[str]:
    """Metrics at the usual cutoffs."""
    from hardneg.evaluation.metrics import MEASURES

    return [f"{measure}@{cutoff}" for measure in (*MEASURES, "answer") for cutoff in _CUTOFFS]


def words(*known: str) -> Callable[[], list[str]]:
    """Completes these words."""
    return lambda: list(known)
