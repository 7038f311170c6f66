"""Recipes that say only what they change of others: `extends` names one or several, laid over each other in order."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hardneg.errors import HardnegError, RecipeError
from hardneg.recipe.yaml_load import apply_preset, find_recipe, merge, read_tree

_KEY = "extends"
_DEEPEST = 8
_SUFFIXES = {".yaml", ".yml"}


def read_whole_tree(path: Path) -> dict[str, Any]:
    """A recipe file as a mapping, what it extends included.

    Raises:
        RecipeError: a file is no recipe, or extends one that is not there, or itself.
    """
    return _whole(path, ())


def _whole(path: Path, trail: tuple[Path, ...]) -> dict[str, Any]:
    place = path.resolve()
    if place in trail or len(trail) >= _DEEPEST:
        raise RecipeError(str(trail[0]), [f"{_KEY}: a circle, or over {_DEEPEST} deep: {path.name} comes again"])
    tree = read_tree(path)
    whole: dict[str, Any] = {}
    for parent, preset in _parents(tree.pop(_KEY, None), path):
        whole = _laid_over(whole, _as_preset(_whole(parent, (*trail, place)), preset, path))
    return _laid_over(whole, tree)


def _as_preset(tree: dict[str, Any], preset: str, path: Path) -> dict[str, Any]:
    """The tree as one of its presets makes it, with the other presets; as it is where none is named."""
    if not preset:
        return tree
    changed, _, problems = apply_preset(tree, preset)
    if problems:
        raise RecipeError(str(path), [f"{_KEY}: {problem}" for problem in problems])
    return {**changed, "presets": {name: changes for name, changes in tree["presets"].items() if name != preset}}


def _parents(names: Any, path: Path) -> list[tuple[Path, str]]:
    """The files of the recipes that are named: shipped ones, or paths seen from the folder of `path`; and presets."""
    listed = names if isinstance(names, list) else [] if names is None else [names]
    if not all(isinstance(name, str) for name in listed):
        raise RecipeError(str(path), [f"{_KEY}: must be a recipe's name or path, or a list of them"])
    named = [(name, "") if Path(name).suffix in _SUFFIXES else name.partition(":")[::2] for name in listed]
    return [(_parent(name, path), preset) for name, preset in named]


def _parent(name: str, path: Path) -> Path:
    try:
        return find_recipe(str(path.parent / name) if Path(name).suffix in _SUFFIXES else name)
    except HardnegError as error:
        raise RecipeError(str(path), [f"{_KEY}: {error}"]) from None


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` over `base`; a null in a preset stays, as it removes something only when the preset is chosen."""
    merged = merge(base, {key: value for key, value in changes.items() if key != "presets"})
    presets = [tree["presets"] for tree in (base, changes) if isinstance(tree.get("presets"), Mapping)]
    if len(presets) > 1:
        merged["presets"] = merge(presets[0], presets[1], keep_nulls=True)
    elif "presets" in changes:
        merged["presets"] = changes["presets"]
    return merged
