"""A recipe as plain stages: the recipe that it extends, its file, a preset and `--set`, each over the one before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError, validate_call

from hardneg.recipes.yaml_load import (
    NAME,
    NAME_RULE,
    PRESET,
    RecipeFunction,
    as_yaml,
    check_values,
    find_recipe,
    head_comment,
    parse_setting,
    read_tree,
)
from hardneg.records import HardnegError, RecipeError, complaint, suggestion

DEFAULT_PRESET = "demo"
EXTENDS, PRESETS = "extends", "presets"
_DEEPEST = 8
_MOST_DOTS = 20
_REPLACES = {
    "epochs": {"max_steps", "stop_at"},
    "max_steps": {"epochs", "stop_at"},
    "warmup_ratio": {"warmup_steps"},
    "warmup_steps": {"warmup_ratio"},
}
"""Other ways to set how long a training or its warm-up is: the later one replaces them."""


class Expanded(NamedTuple):
    """A recipe as plain stages, the preset that was chosen, and the problems met, one line each."""

    tree: dict[str, Any]
    preset: str
    problems: list[str]


def expand(source: Path | RecipeFunction, preset: str | None, settings: Sequence[str]) -> Expanded:
    """The tree of a recipe in a preset, with settings laid over it; no stage's class is imported.

    Raises:
        RecipeError: the file, or one that it extends, is no recipe; or a function returns none.
    """
    if isinstance(source, RecipeFunction):
        own = [setting for setting in settings if setting.partition("=")[0] in source.parameters]
        tree, chosen, problems = _called(source, preset, own)
        settings = [setting for setting in settings if setting not in own]
    else:
        tree, chosen, problems = _laid(_read(source), preset)
    tree, more = apply_settings(tree, settings)
    return Expanded(tree, chosen, [*problems, *more])


def recipe_tree(name: str, preset: str) -> dict[str, Any]:
    """The plain stages of a recipe by its name or its file's path."""
    return expand(find_recipe(name), preset, ()).tree


def plain_text(source: Path | RecipeFunction, preset: str | None, settings: Sequence[str]) -> str:
    """A recipe as YAML: the file itself where nothing is asked of it and it extends none, else its plain stages.

    Raises:
        RecipeError: it has mistakes.
    """
    if isinstance(source, Path) and not preset and not settings and EXTENDS not in read_tree(source):
        return source.read_text("utf-8")
    expanded = expand(source, preset, settings)
    if expanded.problems:
        raise RecipeError(str(source), expanded.problems)
    comment = "".join(f"# {line}".rstrip() + "\n" for line in head_comment(source))
    return comment + as_yaml(expanded.tree)


def preset_names(source: Path | RecipeFunction) -> list[str]:
    """The presets of a recipe: those of the one that it extends, then its own."""
    return list(source.presets) if isinstance(source, RecipeFunction) else _read(source).presets


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, mapping by mapping.

    A plugin of another name, or a stage of another verb, has none of the options of the one before it; a dataset still
    withholds what that one does. How long a training is, be it in epochs or in steps, replaces how long it was.
    """
    merged = {key: value for key, value in base.items() if key not in replaced(changes)}
    for key, value in changes.items():
        before = merged.get(key)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            named = (name for name in ("name", "stage") if name in before and name in value)
            if key != "model" and any(before[name] != value[name] for name in named):
                before = {name: item for name, item in before.items() if (key, name) == ("dataset", "withheld")}
            value = merge(before, value)
        merged[key] = value
    return merged


def replaced(changes: Mapping[str, Any]) -> set[str]:
    """The keys that a mapping's own replace, as they set the same thing in another way."""
    written = {key for key, value in changes.items() if isinstance(value, int | float | str)}
    return set().union(*(_REPLACES[key] for key in written & _REPLACES.keys())) - changes.keys()


def _called(recipe: RecipeFunction, preset: str | None, settings: Sequence[str]) -> Expanded:
    """The tree of a function; settings are its parameters."""
    arguments, problems = apply_settings({}, settings)
    chosen = preset or next(iter(recipe.presets), "")
    if wrong := _no_preset(chosen, recipe.presets) if chosen else "":
        problems.append(wrong)
    elif chosen:
        arguments[PRESET] = chosen
    try:
        tree = validate_call(recipe.function)(**arguments)
    except ValidationError as error:
        problems += [f"set {'.'.join(map(str, item['loc']))}: {complaint(item)}" for item in error.errors()]
        tree = recipe.function()
    try:
        check_values(tree)
    except ValueError as error:
        raise RecipeError(recipe.name, [f"a value cannot be read: {error}"]) from None
    return Expanded(tree, chosen, problems)


@dataclass(frozen=True)
class _File:
    """A recipe's file and what it extends; fixed: the preset of that, where the file names one."""

    path: Path
    tree: Mapping[str, Any]
    parent: "_File | RecipeFunction | None" = None
    fixed: str = ""

    @property
    def inherited(self) -> list[str]:
        """The presets of what it extends that may be chosen here too."""
        return [] if self.parent is None or self.fixed else list(self.parent.presets)

    @property
    def presets(self) -> list[str]:
        """Those that may be chosen."""
        return list(dict.fromkeys([*self.inherited, *map(str, self.tree.get(PRESETS) or ())]))


def _read(path: Path, trail: tuple[Path, ...] = ()) -> _File:
    """A file and all that it extends."""
    if path.resolve() in trail or len(trail) >= _DEEPEST:
        reason = f"{EXTENDS}: a circle, or over {_DEEPEST} deep: {path.name} comes again"
        raise RecipeError(str(trail[0]), [reason])
    tree = read_tree(path)
    if PRESETS in tree and not isinstance(tree[PRESETS], Mapping):
        raise RecipeError(str(path), [f"{PRESETS}: must map a name to the values it changes"])
    written = tree.get(EXTENDS)
    if written is None:
        return _File(path, tree)
    if not isinstance(written, str):
        raise RecipeError(str(path), [f"{EXTENDS}: must be one recipe's name or path"])
    is_file = Path(written).suffix in {".yaml", ".yml"}
    name, _, fixed = (written, "", "") if is_file else written.partition(":")
    try:
        source = find_recipe(str(path.parent / name) if is_file else name)
    except HardnegError as error:
        raise RecipeError(str(path), [f"{EXTENDS}: {error}"]) from None
    parent = source if isinstance(source, RecipeFunction) else _read(source, (*trail, path.resolve()))
    return _File(path, tree, parent, fixed)


def _laid(file: _File, preset: str | None) -> Expanded:
    """The tree of a file over that of the recipe which it extends, both in a preset."""
    base, problems, below = dict[str, Any](), list[str](), file.fixed or (preset if preset in file.inherited else None)
    if file.parent is not None:
        if isinstance(file.parent, RecipeFunction):
            base, _, problems = _called(file.parent, below, ())
        else:
            base, _, problems = _laid(file.parent, below)
        problems = [f"{EXTENDS}: {problem}" for problem in problems]
    own = {key: value for key, value in file.tree.items() if key not in (EXTENDS, PRESETS)}
    chosen = preset or (DEFAULT_PRESET if DEFAULT_PRESET in file.presets else "")
    changes = (file.tree.get(PRESETS) or {}).get(chosen) or {}
    if wrong := _no_preset(chosen, file.presets) if chosen else "":
        problems.append(wrong)
    elif not isinstance(changes, Mapping):
        problems.append(f"{PRESETS}.{chosen}: must be a mapping of the values that it changes")
        changes = {}
    elif chosen and not NAME.fullmatch(chosen):
        problems.append(f"{PRESETS}: {chosen!r:.60}: a preset's name {NAME_RULE}")
        chosen = ""
    return Expanded(merge(merge(base, own), changes), chosen, problems)


def _no_preset(chosen: str, names: Sequence[str]) -> str:
    """Why a preset cannot be chosen; empty where it can."""
    there = ", ".join(names) or "none"
    return "" if chosen in names else f"{PRESETS}: no preset {chosen!r}{suggestion(chosen, names)}; there are: {there}"


def apply_settings(tree: Mapping[str, Any], settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The tree with each `a.b=value` set, and the problems met; a value is read as YAML."""
    problems: list[str] = []
    changed, written = dict(tree), {setting.partition("=")[0] for setting in settings}
    for number, setting in enumerate(settings):
        path, equals, text = setting.partition("=")
        if lost := next((each for each in settings[:number] if each.startswith(f"{path}.")), None):
            problems.append(f"set {path}: would replace {lost}, which stands before it: give it first")
        if not equals or not path or path.count(".") > _MOST_DOTS:
            problems.append(f"set {setting}: must be of the form path.to.key=value")
            continue
        try:
            value = parse_setting(text)
        except ValueError as error:
            problems.append(f"set {path}: {error}")
            continue
        changed = _set(changed, path.split("."), value)
        *parents, key = path.split(".")
        for other in replaced({key: value}):
            if ".".join([*parents, other]) not in written:
                changed = _without(changed, [*parents, other])
    return changed, problems


def _set(tree: Any, path: list[str], value: Any) -> dict[str, Any]:
    branch: dict[str, Any] = dict(tree) if isinstance(tree, Mapping) else {}
    if isinstance(tree, str):  # a short form (`star`, `beir:PATH`, a model's name) becomes its long form
        name, colon, source = tree.partition(":")
        branch = {"name": tree} if not colon or name == "packaged" else {"name": name, "source": source}
    branch[path[0]] = _set(branch.get(path[0]), path[1:], value) if len(path) > 1 else value
    return branch


def _without(tree: Any, path: list[str]) -> Any:
    if not isinstance(tree, Mapping) or path[0] not in tree:
        return tree
    rest = {key: value for key, value in tree.items() if key != path[0]}
    return rest if len(path) == 1 else {**tree, path[0]: _without(tree[path[0]], path[1:])}
