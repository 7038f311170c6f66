"""The recipe language: read files safely or call functions, and merge each with the recipe that it extends."""

import inspect
import math
import re
import shlex
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import yaml
from pydantic import ValidationError, validate_call

from hardneg.records import START, HardnegError, PluginError, RecipeError, UsageError, complaint, suggestion
from hardneg.registry import entry_points, install_command

PRESET = "preset"
NAME = re.compile(r"\w[\w .-]{0,49}")
"""The pattern for names of stages and presets, which are also used as file and folder names."""
NAME_RULE = "must start with a letter or digit and contain at most 50 letters, digits, '.', '_', '-' or spaces"
EXTENDS, PRESETS = "extends", "presets"
_REPLACES = {
    "epochs": {"max_steps", "stop_at"},
    "max_steps": {"epochs", "stop_at"},
    "warmup_ratio": {"warmup_steps"},
    "warmup_steps": {"warmup_ratio"},
}
"""Mutually exclusive options for the length of training or warm-up: setting the key removes the others."""
_MAX_BYTES, _LARGEST_COUNT, _DEEPEST, _DEEPEST_EXTENDS = 1 << 20, 100_000, 50, 8
_TOO_DEEP = f"nested more than {_DEEPEST} levels deep"


@dataclass(frozen=True)
class RecipeFunction:
    """A recipe that a package defines as a function; `--set` sets all its parameters except `preset`.

    stem: the recipe's name, like a file name without suffix.
    """

    stem: str
    function: Callable[..., dict[str, Any]]

    def __str__(self) -> str:
        return self.stem

    @property
    def presets(self) -> tuple[str, ...]:
        """The values of the function's parameter `preset`, a `Literal`; the first value is the default."""
        return get_args(get_type_hints(self.function).get(PRESET))

    @property
    def parameters(self) -> Collection[str]:
        """The parameters that `--set` can set."""
        return inspect.signature(self.function).parameters.keys() - {PRESET}


class _Loader(yaml.SafeLoader):
    """A safe loader that rejects duplicate keys."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<`: the keys of another mapping, which these override
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                break  # the base class raises
            if key in seen:
                reason = f"duplicate key {key!r}"
                raise yaml.constructor.ConstructorError(None, None, reason, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def shipped_recipes() -> dict[str, Path]:
    """Return hardneg's own recipe files by name, from the wheel or the checkout."""
    inside = Path(__file__).parent / "shipped"
    folder = inside if inside.is_dir() else Path(__file__).parents[2] / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def named_recipes() -> list[str]:
    """Return the names of all recipes: first hardneg's own files, then the functions of installed packages."""
    return list(dict.fromkeys([*shipped_recipes(), *sorted(point.name for point in entry_points("recipes"))]))


def find_recipe(name: str) -> Path | RecipeFunction:
    """Return the recipe with a name or path. Raises UsageError if it does not exist, PluginError if it is unusable."""
    path, shipped = Path(name), shipped_recipes()
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        if path.is_file():
            return path
        raise UsageError(f"no recipe file {name}; check the path")
    if name in shipped:
        return shipped[name]
    points = [point for point in entry_points("recipes") if point.name == name]
    if len(points) > 1:
        raise PluginError(f"two packages define the recipe {name!r}; uninstall one of them")
    try:
        if points:
            return RecipeFunction(name, points[0].load())
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise PluginError(f"the recipe {name!r} ({points[0].value}) cannot be imported ({reason})") from error
    reason = f"no recipe {name!r}{suggestion(name, named_recipes())}; see `hardneg recipe list`, or give a path"
    if not any(point.value.startswith("hardneg_papers.") for point in entry_points("recipes")):
        reason += "; recipes for the papers' tables and studies are in package hardneg-papers, which is not installed: "
        reason += install_command("hardneg-papers")
    raise UsageError(reason)


def read_tree(path: Path) -> dict[str, Any]:
    """Return the mapping in a recipe or lock file. Raises RecipeError if it is invalid, UsageError if unreadable."""
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise RecipeError(str(path), ["too large for a recipe; the limit is 1 MiB"])
        tree = parsed(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError) as error:
        at = f"byte {error.start}: not UTF-8" if isinstance(error, UnicodeDecodeError) else f"invalid value: {error}"
        raise RecipeError(str(path), [_located(error) if isinstance(error, yaml.YAMLError) else at]) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not isinstance(tree, dict):
        raise RecipeError(str(path), ["the file must contain a mapping with `dataset`, `model` and `stages`"])
    return tree


def _located(error: yaml.YAMLError) -> str:
    mark, reason = getattr(error, "problem_mark", None), getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {reason}" if mark else str(reason)


def as_yaml(tree: Mapping[str, Any]) -> str:
    """Return a recipe's tree as YAML text."""
    dumper = type("WithoutAnchors", (yaml.SafeDumper,), {"ignore_aliases": lambda self, data: True})
    return str(yaml.dump(tree, None, dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None))


def head_comment(source: Path | RecipeFunction) -> list[str]:
    """Return the lines of a recipe file's opening comment, without `#`, or of a recipe function's docstring."""
    if isinstance(source, RecipeFunction):
        return (inspect.getdoc(source.function) or "").splitlines()
    lines = takewhile(lambda line: line.startswith("#"), source.read_text(encoding="utf-8").splitlines())
    return [line.removeprefix("#").removeprefix(" ") for line in lines]


def parse_setting(text: str) -> Any:
    """Parse the VALUE of `KEY=VALUE` as YAML, or return it as a string if it is not valid YAML.

    Raises ValueError if a recipe cannot contain the value, or if invalid YAML starts like a mapping, list or quote.
    """
    try:
        return parsed(text)
    except yaml.YAMLError as error:
        if text.lstrip()[:1] in tuple("{['\""):
            raise ValueError(f"{_located(error).removeprefix('line 1, ')}; put text in quotes") from None
        check_values(text)
        return text


def parsed(text: str) -> Any:
    """Parse YAML text. Raises YAMLError if it is invalid, ValueError if a recipe cannot contain the values."""
    try:
        value = yaml.load(text, _Loader)  # a SafeLoader
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    check_values(value)
    return value


def check_values(value: Any, known: dict[int, int] | None = None, level: int = 0) -> int:
    """Count a tree's values after expanding aliases. Raises ValueError for invalid, too many or too deep values."""
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    if level > _DEEPEST:
        raise ValueError(_TOO_DEEP)
    parts = list[Any]()
    match value:
        case Mapping():
            parts = [*value.keys(), *value.values()]
        case list():
            parts = value
        case str() if "\0" in value or value.encode(errors="ignore").decode() != value:
            raise ValueError(f"{value!r:.40} contains an invalid character")
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        case int() if not -(2**63) <= value < 2**63:
            raise ValueError(f"an integer of {value.bit_length()} bits is too large; the limit is 64 bits")
        case str() | float() | int() | None:
            pass
        case _:
            raise ValueError(f"{value!r:.40} is a {type(value).__name__}; put text in quotes")
    count = 1 + sum(check_values(part, known, level + 1) for part in parts)
    if count > _LARGEST_COUNT:
        raise ValueError(f"more than {_LARGEST_COUNT} values after expanding aliases")
    known[id(value)] = count
    return count


class Expanded(NamedTuple):
    """A recipe as plain stages, with the chosen preset and the problems found, one line each.

    locked: the keys of all steps and, as `start`, of the model; empty unless the recipe is a run's unchanged lock file.
    """

    tree: dict[str, Any]
    preset: str
    problems: list[str]
    locked: Mapping[str, str] = {}


def expand(source: Path | RecipeFunction, preset: str | None, settings: Sequence[str]) -> Expanded:
    """Expand a recipe to plain stages, with a preset and settings applied. Raises RecipeError if it is not a recipe."""
    if isinstance(source, RecipeFunction):
        own = [setting for setting in settings if setting.partition("=")[0] in source.parameters]
        found = _called(source, preset, own)
        settings = [setting for setting in settings if setting not in own]
    else:
        found = _merged(_read(source), preset)
    tree, more = apply_settings(found.tree, settings)
    return Expanded(tree, found.preset, [*found.problems, *more], {} if settings else found.locked)


def recipe_tree(name: str, preset: str) -> dict[str, Any]:
    """Expand the recipe with the given name or path to a tree of plain stages, with a preset applied."""
    return expand(find_recipe(name), preset, ()).tree


def plain_text(source: Path | RecipeFunction, preset: str | None, settings: Sequence[str]) -> str:
    """Return a recipe as YAML: its own text if self-contained, else plain stages. Raises RecipeError for mistakes."""
    if isinstance(source, Path) and not preset and not settings and EXTENDS not in read_tree(source):
        return source.read_text("utf-8")
    tree, _, problems, _ = expand(source, preset, settings)
    if problems:
        raise RecipeError(str(source), problems)
    return "".join(f"# {line}".rstrip() + "\n" for line in head_comment(source)) + as_yaml(tree)


def preset_names(source: Path | RecipeFunction) -> list[str]:
    """Return the presets of a recipe, inherited ones first."""
    return list(source.presets) if isinstance(source, RecipeFunction) else _read(source).presets


def default_folder(recipe: str, preset: str) -> Path:
    """Return the default run folder for a recipe and preset: `runs/RECIPE-PRESET`, or `runs/RECIPE` without one."""
    return Path("runs") / "-".join(filter(None, [recipe, preset]))


def maker(folder: str) -> str | None:
    """Return the command that creates `folder` if it is inside the default run folder of a known recipe, else None."""
    parts = Path(folder).parts
    for recipe in named_recipes() if len(parts) > 2 else ():
        for preset in preset_names(find_recipe(recipe)) if parts[1].startswith(recipe) else ():
            if parts[:2] == default_folder(recipe, preset).parts:
                return run_command(recipe, preset)
    return None


def run_command(recipe: str | Path | RecipeFunction, preset: str = "", settings: Sequence[str] = ()) -> str:
    """Return the command that runs a recipe, given by its name, file or function."""
    name = next((name for name, path in shipped_recipes().items() if path == recipe), str(recipe))
    more = f" --preset {shlex.quote(preset)}" if preset else ""
    more += "".join(f" --set {shlex.quote(each)}" for each in settings)
    return f"hardneg recipe run {shlex.quote(name)}{more}"


def merge(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `changes` into `base`, mapping by mapping.

    A plugin with a different name, or a stage with a different verb, inherits no options, except that a dataset keeps
    `withheld`. A training length in epochs or steps replaces an inherited length.
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
    """Return the inherited keys that the keys of `changes` exclude; for example, `epochs` excludes `max_steps`."""
    written = {key for key, value in changes.items() if isinstance(value, int | float | str)}
    return set().union(*(_REPLACES[key] for key in written & _REPLACES.keys())) - changes.keys()


def _called(recipe: RecipeFunction, preset: str | None, settings: Sequence[str]) -> Expanded:
    arguments, problems = apply_settings({}, settings)
    chosen = preset or next(iter(recipe.presets), "")
    if wrong := _no_preset(chosen, recipe.presets):
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
        raise RecipeError(recipe.stem, [f"invalid value: {error}"]) from None
    return Expanded(tree, chosen, problems)


class _File(NamedTuple):
    """A recipe file and its parent. below: the preset that the file selects in the parent. presets: all presets."""

    tree: Mapping[str, Any]
    parent: "_File | RecipeFunction | None"
    below: str
    inherited: Collection[str]
    presets: list[str]
    locked: Mapping[str, str] = {}


def _read(path: Path, trail: tuple[Path, ...] = ()) -> _File:
    if path.resolve() in trail or len(trail) >= _DEEPEST_EXTENDS:
        raise RecipeError(str(trail[0]), [f"{EXTENDS}: a cycle, or over {_DEEPEST_EXTENDS} levels, at {path.name}"])
    tree = read_tree(path)
    if "start_model" in tree and all(isinstance(tree.get(part), dict) for part in ("keys", "tree")):
        keys = {START: tree["start_model"], **tree["keys"]}
        locked = {name: key for name, key in keys.items() if re.fullmatch("[0-9a-f]{32}", str(key))}
        return _File(tree["tree"], None, "", (), [], locked)
    if PRESETS in tree and not isinstance(tree[PRESETS], Mapping):
        raise RecipeError(str(path), [f"{PRESETS}: must be a mapping of names to the values that they change"])
    presets, written = [*map(str, tree.get(PRESETS) or ())], tree.get(EXTENDS)
    if written is None:
        return _File(tree, None, "", (), presets)
    if not isinstance(written, str):
        raise RecipeError(str(path), [f"{EXTENDS}: must be the name or path of one recipe"])
    is_file = Path(written).suffix in {".yaml", ".yml"}
    name, _, below = (written, "", "") if is_file else written.partition(":")
    try:
        source = find_recipe(str(path.parent / name) if is_file else name)
    except HardnegError as error:
        raise RecipeError(str(path), [f"{EXTENDS}: {error}"]) from None
    parent = source if isinstance(source, RecipeFunction) else _read(source, (*trail, path.resolve()))
    inherited = () if below else parent.presets
    return _File(tree, parent, below, inherited, list(dict.fromkeys([*inherited, *presets])))


def _merged(file: _File, preset: str | None) -> Expanded:
    base, problems, below = dict[str, Any](), list[str](), file.below or (preset if preset in file.inherited else None)
    if file.parent is not None:
        above = file.parent
        base, _, problems, _ = _merged(above, below) if isinstance(above, _File) else _called(above, below, ())
        problems = [f"{EXTENDS}: {problem}" for problem in problems]
    own = {key: value for key, value in file.tree.items() if key not in (EXTENDS, PRESETS)}
    chosen = preset or ("demo" if "demo" in file.presets else "")
    changes = (file.tree.get(PRESETS) or {}).get(chosen) or {}
    if wrong := _no_preset(chosen, file.presets):
        problems.append(wrong)
    elif not isinstance(changes, Mapping):
        problems.append(f"{PRESETS}.{chosen}: must be a mapping of the values to change")
        changes = {}
    elif chosen and not NAME.fullmatch(chosen):
        problems.append(f"{PRESETS}: the name {chosen!r:.60} {NAME_RULE}")
        chosen = ""
    return Expanded(merge(merge(base, own), changes), chosen, problems, file.locked)


def _no_preset(chosen: str, names: Sequence[str]) -> str:
    if chosen in ("", *names):
        return ""
    return f"{PRESETS}: no preset {chosen!r}{suggestion(chosen, names)}; available: {', '.join(names) or 'none'}"


def apply_settings(tree: Mapping[str, Any], settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Apply settings `path.to.key=value`, with values in YAML; return the new tree and the problems, one line each."""
    problems: list[str] = []
    changed, written = dict(tree), [setting.partition("=")[0] for setting in settings]
    for number, setting in enumerate(settings):
        path, equals, text = setting.partition("=")
        *parents, key = path.split(".")
        try:
            value = parse_setting(text)
            if not equals or not path or len(parents) > 20:
                problems.append(f"set {setting}: must have the form path.to.key=value")
            elif lost := [earlier for earlier in written[:number] if earlier.startswith(f"{path}.")]:
                advice = f"put {path} first, or remove one of them"
                problems.append(f"set {path}: would overwrite the earlier {lost[0]}; {advice}")
            else:
                dropped = {other for other in replaced({key: value}) if ".".join([*parents, other]) not in written}
                changed = _set(changed, [*parents, key], value, dropped)
        except ValueError as error:
            problems.append(f"set {path}: {error}")
    stages = changed.get("stages")
    for name, stage in stages.items() if isinstance(stages, Mapping) else ():
        options = stage.get("options") if isinstance(stage, Mapping) else None
        if isinstance(options, Mapping) and None not in map(options.get, ("epochs", "max_steps")):
            problems.append(f"stages.{name}.options: has both epochs and max_steps; remove one of them")
    return changed, problems


def _set(tree: Any, path: list[str], value: Any, dropped: Collection[str]) -> dict[str, Any]:
    """Return a copy of the tree with a value set at a path, and without the keys `dropped` at the same level."""
    branch: dict[str, Any] = dict(tree) if isinstance(tree, Mapping) else {}
    if isinstance(tree, str):  # a short form: `star`, `beir:PATH`, a model's name
        name, colon, source = tree.partition(":")
        branch = {"name": tree} if not colon or name == "packaged" else {"name": name, "source": source}
    if len(path) > 1:
        return {**branch, path[0]: _set(branch.get(path[0]), path[1:], value, dropped)}
    return {key: item for key, item in branch.items() if key not in dropped} | {path[0]: value}
