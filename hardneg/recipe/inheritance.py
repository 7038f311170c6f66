"""Recipes that hold only changes: trees laid over each other, by `extends` and by presets."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from hardneg.recipe.functions import RecipeFunction
from hardneg.recipe.settings import replaced
from hardneg.recipe.yaml_load import NAME, NAME_RULE, find_file, read_tree
from hardneg.records.errors import HardnegError, RecipeError
from hardneg.records.wording import suggestion

DEFAULT_PRESET = "demo"
PRESETS = "presets"
EXTENDS = "extends"
_DEEPEST = 8
_SUFFIXES = {".yaml", ".yml"}


class Removed:
    """What is left of a value that a null has removed, so that neither a default nor a `for` brings it back."""


REMOVED: Final = Removed()


def is_removed(value: Any) -> bool:
    """Whether a value is a null, or the mark of one."""
    return value is None or value is REMOVED


def merge(base: Mapping[str, Any], changes: Mapping[str, Any], keep_nulls: bool = False) -> dict[str, Any]:
    """`base` with `changes` laid over it, mapping by mapping; a null removes the key.

    keep_nulls: one that removes nothing stays for a later merge.

    A dataset of another name has none of the options of the loader before it, but still withholds what that one does.
    How long a training is, be it in epochs or in steps, replaces how long it was.
    """
    merged = dict(base)
    if _another(base.get("dataset"), changes.get("dataset")):
        merged["dataset"] = {key: value for key, value in base["dataset"].items() if key == "withheld"}
    for key, value in changes.items():
        if is_removed(value) and not (keep_nulls and is_removed(merged.get(key))):
            merged[key] = REMOVED
        elif isinstance(value, Mapping) and isinstance(merged.get(key), Mapping):
            merged[key] = merge(merged[key], value, keep_nulls)
        else:
            merged[key] = value
    return merged | dict.fromkeys(replaced(changes) & merged.keys(), REMOVED)


def lay_under(base: Mapping[str, Any], own: Mapping[str, Any]) -> dict[str, Any]:
    """`own`, with what it lacks taken from `base`; a plugin of another name takes none of `base`'s options."""
    below = {key: value for key, value in base.items() if not is_removed(value)}
    merged = {key: value for key, value in own.items() if not (is_removed(value) and key in below)}
    for key, value in below.items():
        laid = merged.get(key)
        if isinstance(value, Mapping) and isinstance(laid, Mapping) and not _another(value, laid):
            merged[key] = lay_under(value, laid)
        elif key not in own and key not in replaced(own):
            merged[key] = value
    return merged


def without_removed(value: Any) -> Any:
    """A tree without the marks of removal; a null that removed nothing stays a value."""
    if isinstance(value, Mapping):
        return {key: without_removed(item) for key, item in value.items() if item is not REMOVED}
    return value


def _another(before: Any, after: Any) -> bool:
    """Whether two settings name different plugins."""
    known = isinstance(before, Mapping) and isinstance(after, Mapping) and {"name"} <= {*before} & {*after}
    return known and after["name"] != before["name"]


def apply_preset(tree: Mapping[str, Any], preset: str | None) -> tuple[dict[str, Any], str, list[str]]:
    """The tree with a preset merged in, that preset's name, and the problems met."""
    presets = tree.get(PRESETS) or {}
    base = {key: value for key, value in tree.items() if key != PRESETS}
    if not isinstance(presets, Mapping):
        return base, "", ["presets: must map a name to the values it changes"]
    chosen = preset or (DEFAULT_PRESET if DEFAULT_PRESET in presets else "")
    if not chosen:
        return base, "", []
    if chosen not in presets:
        names = ", ".join(map(str, presets)) or "none"
        problem = f"presets: no preset {chosen!r}{suggestion(chosen, map(str, presets))}; there are: {names}"
        return base, chosen, [problem]
    if not NAME.fullmatch(chosen):
        return base, "", [f"presets: {chosen!r:.60}: a preset's name {NAME_RULE}"]
    if not isinstance(changes := presets[chosen] or {}, Mapping):
        return base, chosen, [f"presets.{chosen}: must be a mapping of the values that it changes"]
    problem = f"{PRESETS}.{chosen}.{PRESETS}: a preset cannot hold it; it stands at the top of a recipe"
    own = {key: value for key, value in changes.items() if key != PRESETS}
    return merge(base, own), chosen, [problem] * (PRESETS in changes)


@dataclass(frozen=True)
class _Layer:
    """The tree of one file, or of one preset of several files (then `tree` is those files' sum).

    as_preset: the presets that recipes which extend it have chosen of it, the first one first.
    """

    path: Path
    tree: Mapping[str, Any] = field(compare=False)
    preset: str = ""
    as_preset: tuple[str, ...] = ()


def preset_names(source: Path | RecipeFunction) -> list[str]:
    """The presets of a recipe."""
    if isinstance(source, RecipeFunction):
        return list(source.presets)
    return list(read_whole_tree(source).get(PRESETS) or ())


def read_whole_tree(path: Path) -> dict[str, Any]:
    """A recipe file as a mapping, what it extends included; what a null removes is marked.

    Raises:
        RecipeError: a file is no recipe, or extends one that is not there, or itself, or one twice.
    """
    layers = _layers(path, (), (DEFAULT_PRESET,))
    whole = laid(layer.tree for layer in layers)
    for name in whole.get(PRESETS) or ():
        if (others := _layers(path, (), (name,))) != layers:
            whole[PRESETS] |= {name: _changes(whole, apply_preset(laid(layer.tree for layer in others), name)[0])}
    return whole


def _changes(base: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """What is to be laid over `base` so that `changed` comes out."""
    changes: dict[str, Any] = {key: REMOVED for key in base if key not in (*changed, PRESETS)}
    for key, value in changed.items():
        if isinstance(value, Mapping) and isinstance(base.get(key), Mapping):
            changes |= {key: inner} if (inner := _changes(base[key], value)) else {}
        elif key not in base or value != base[key]:
            changes[key] = value
    return changes


def read_layers(path: Path, preset: str | None = None) -> list[Mapping[str, Any]]:
    """The trees of a recipe file and of all that it extends, in the order in which they are laid over each other.

    A preset that extends recipes of its own extends those instead of the ones at the top of its file.
    """
    return [layer.tree for layer in _layers(path, (), (preset or DEFAULT_PRESET,))]


def laid(layers: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Trees laid over each other, with their presets; what a null removes is marked."""
    whole: dict[str, Any] = {}
    for tree in layers:
        whole = _laid_over(whole, tree)
    return whole


def _layers(path: Path, trail: tuple[Path, ...], chosen: tuple[str, ...]) -> list[_Layer]:
    """The file after all that it extends: what it extends comes first, in the order of its list, each once.

    chosen: the requested preset, then those that recipes which extend this one have chosen of it.
    """
    file = path.resolve()
    if file in trail or len(trail) >= _DEEPEST:
        raise RecipeError(str(trail[0]), [f"{EXTENDS}: a circle, or over {_DEEPEST} deep: {path.name} comes again"])
    tree = read_tree(path)
    names = tree.pop(EXTENDS, None)
    if isinstance(presets := tree.get(PRESETS), Mapping):
        own = {name: dict(changes) for name, changes in presets.items() if isinstance(changes, Mapping)}
        extended = {name: changes.pop(EXTENDS) for name, changes in own.items() if EXTENDS in changes}
        tree[PRESETS] = {**presets, **own}
        names = next((extended[name] for name in chosen if name in extended), names)
    layers: list[_Layer] = []
    for parent, preset in _parents(names, path):
        below = _layers(parent, (*trail, file), (*chosen, preset) if preset else chosen)
        layers += _as_preset(below, preset, path) if preset else below
    return [*dict.fromkeys(layers), _Layer(file, tree)]


def _as_preset(layers: list[_Layer], preset: str, path: Path) -> list[_Layer]:
    """The layers without one of their presets, then what it changes."""
    whole = laid(layer.tree for layer in dict.fromkeys(layers))
    _, _, problems = apply_preset(whole, preset)
    if problems:
        raise RecipeError(str(path), [f"{EXTENDS}: {problem}" for problem in problems])
    chosen = list[_Layer]()
    for layer in layers:
        if preset in (presets := layer.tree.get(PRESETS) or {}):  # another layer than where the preset is not chosen
            tree = {**layer.tree, PRESETS: {name: changes for name, changes in presets.items() if name != preset}}
            layer = replace(layer, tree=tree, as_preset=(*layer.as_preset, preset))
        chosen.append(layer)
    return [*chosen, _Layer(layers[-1].path, whole[PRESETS][preset] or {}, preset)]


def _parents(names: Any, path: Path) -> list[tuple[Path, str]]:
    """The files of the recipes that are named: shipped ones, or paths seen from the folder of `path`; and presets."""
    listed = names if isinstance(names, list) else [] if names is None else [names]
    if not all(isinstance(name, str) for name in listed):
        raise RecipeError(str(path), [f"{EXTENDS}: must be a recipe's name or path, or a list of them"])
    named = [(name, "") if Path(name).suffix in _SUFFIXES else name.partition(":")[::2] for name in listed]
    parents: list[tuple[Path, str]] = []
    for name, preset in named:
        try:
            parents.append((find_file(str(path.parent / name) if Path(name).suffix in _SUFFIXES else name), preset))
        except HardnegError as error:
            raise RecipeError(str(path), [f"{EXTENDS}: {error}"]) from None
    seen = [(parent.resolve(), preset) for parent, preset in parents]
    if again := [name for at, name in enumerate(listed) if seen[at] in seen[:at]]:
        raise RecipeError(str(path), [f"{EXTENDS}: {name} stands here twice; each is laid once" for name in again])
    return parents


def _laid_over(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`changes` over `base`; a null in a preset stays, as it removes something only when the preset is chosen."""
    merged = merge(base, {key: value for key, value in changes.items() if key != PRESETS})
    presets = [tree[PRESETS] for tree in (base, changes) if isinstance(tree.get(PRESETS), Mapping)]
    if len(presets) > 1:
        merged[PRESETS] = merge(presets[0], presets[1], keep_nulls=True)
    elif PRESETS in changes:
        merged[PRESETS] = changes[PRESETS]
    return merged
