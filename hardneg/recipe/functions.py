"""Recipes as functions: typed Python functions of packages that return a recipe's tree (`hardneg.recipes`)."""

import inspect
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, get_args, get_type_hints

from hardneg.records.errors import PluginError
from hardneg.registry.plugins import entry_points, install_command

PRESET = "preset"
PACKAGE = "hardneg-papers"


@dataclass(frozen=True)
class RecipeFunction:
    """A recipe that a package brings as a function; its parameters besides `preset` are set by `--set`."""

    name: str
    function: Callable[..., dict[str, Any]]

    def __str__(self) -> str:
        return self.name

    @property
    def stem(self) -> str:
        """Its name, as a file's without the ending."""
        return self.name

    @property
    def head(self) -> list[str]:
        """The lines of its docstring."""
        return (inspect.getdoc(self.function) or "").splitlines()

    @property
    def presets(self) -> tuple[str, ...]:
        """The values of its parameter `preset`, a `Literal`; the first is the default."""
        return get_args(get_type_hints(self.function).get(PRESET))

    @property
    def parameters(self) -> Collection[str]:
        """What `--set` may give it."""
        return inspect.signature(self.function).parameters.keys() - {PRESET}


def function_names() -> list[str]:
    """The names of the installed recipes that are functions, sorted; nothing is imported."""
    return sorted({point.name for point in entry_points("recipes")})


def load_function(name: str) -> RecipeFunction:
    """The function of an installed recipe. Raises PluginError: two packages claim the name, or its import fails."""
    points = [point for point in entry_points("recipes") if point.name == name]
    if len(points) > 1:
        raise PluginError(f"the recipe {name!r} is brought by two packages; uninstall one of them")
    try:
        return RecipeFunction(name, points[0].load())
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise PluginError(f"the recipe {name!r} ({points[0].value}) cannot be imported ({reason})") from error


def other_recipes() -> str:
    """Where more recipes are, if their package is not installed; else empty."""
    if any(point.value.startswith("hardneg_papers.") for point in entry_points("recipes")):
        return ""
    return (
        f"; the papers' tables and the studies are in the package {PACKAGE}, which is not installed: "
        f"{install_command(PACKAGE)}"
    )
