"""What the Tab key completes: recipes, presets, stages, plugins, forms, metrics. Nothing heavy is imported."""

from collections.abc import Callable, Iterable
from typing import Any

import typer

from hardneg.records import HardnegError

_CUTOFFS = (5, 10, 20, 100, 1000)


def recipes() -> list[str]:
    """The names of recipes; files are completed by the shell."""
    from hardneg.recipes import named_recipes

    return named_recipes()


def presets(context: typer.Context) -> list[str]:
    """Those of the recipe that stands on the line."""
    from hardneg.recipes import preset_names

    names: list[str] = _of_recipe(context, lambda source: list(preset_names(source)), [])
    return names


def stages(context: typer.Context) -> list[str]:
    """Those of the recipe that stands on the line, with its preset."""
    tree = _expanded(context)
    return ["dataset", *(tree.get("stages") or ())] if tree else []


def settings(context: typer.Context, incomplete: str) -> list[str]:
    """The keys that the recipe has, down to one more dot than is typed."""
    depth = incomplete.count(".") + 1
    parts = (path.split(".") for path in _paths(_expanded(context)))
    return sorted({".".join(each[:depth]) + ("." if len(each) > depth else "") for each in parts})


def plugins(kind: str) -> Callable[[], list[str]]:
    """Completes the installed plugins of a kind."""

    def names() -> list[str]:
        from hardneg.registry import list_plugins

        return [plugin.name for plugin in list_plugins(kind)]

    return names


def kinds() -> list[str]:
    """The kinds of plugins, in the singular."""
    from hardneg.registry import SINGULARS

    return list(SINGULARS)


def named_plugins(context: typer.Context) -> list[str]:
    """The plugins of the kind that stands on the line."""
    from hardneg.registry import SINGULARS

    kind = context.params.get("kind") or ""
    return plugins(SINGULARS.get(kind, kind))()


def metrics() -> list[str]:
    """Metrics at the usual cutoffs."""
    from hardneg.evaluation.metrics import MEASURES

    return [f"{measure}@{cutoff}" for measure in (*MEASURES, "answer") for cutoff in _CUTOFFS]


def words(*known: str) -> Callable[[], list[str]]:
    """Completes these words."""
    return lambda: list(known)


def _of_recipe(context: typer.Context, read: Callable[[Any], Any], none: Any) -> Any:
    """What is read of the recipe that stands on the line; `none` where it cannot be read."""
    from hardneg.recipes import find_recipe

    typed = context.args[0] if context.args else None  # where the option that is completed stands last
    name = context.params.get("recipe") or context.params.get("name") or typed
    try:
        return read(find_recipe(name)) if name else none
    except HardnegError:
        return none


def _expanded(context: typer.Context) -> dict[str, Any]:
    from hardneg.recipes import expand

    preset = context.params.get("preset")
    tree: dict[str, Any] = _of_recipe(context, lambda source: expand(source, preset, ()).tree, {})
    return tree


def _paths(tree: dict[str, Any], above: str = "") -> Iterable[str]:
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from _paths(value, f"{above}{key}.")
        else:
            yield f"{above}{key}="
