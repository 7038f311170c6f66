"""Where recipes are, and what they say: a file read safely or a function called, over what it extends, as a tree."""

import inspect
import math
import re
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

import yaml
from pydantic import ValidationError, validate_call

from hardneg.records import HardnegError, PluginError, RecipeError, UsageError, complaint, suggestion
from hardneg.registry import entry_points, install_command

PRESET = "preset"
NAME = re.compile(r"\w[\w .-]{0,49}")
"""What may name a stage or a preset: files and folders are called by it."""
NAME_RULE = "begins with a letter or digit and has letters, digits, '.', '_', '-' and spaces, 50 at most"
EXTENDS, PRESETS = "extends", "presets"
_DEEPEST_EXTENDS = 8
_REPLACES = {
    "epochs": {"max_steps", "stop_at"},
    "max_steps": {"epochs", "stop_at"},
    "warmup_ratio": {"warmup_steps"},
    "warmup_steps": {"warmup_ratio"},
}
"""Other ways to set how long a training or its warm-up is: the later one replaces them."""
_MAX_BYTES = 1 << 20
_LARGEST_COUNT = 100_000
_DEEPEST = 50
_TOO_DEEP = f"over {_DEEPEST} levels deep"
_WHOLE_NUMBERS = range(-(2**63), 2**63)


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
    def presets(self) -> tuple[str, ...]:
        """The values of its parameter `preset`, a `Literal`; the first is the default."""
        return get_args(get_type_hints(self.function).get(PRESET))

    @property
    def parameters(self) -> Collection[str]:
        """What `--set` may give it."""
        return inspect.signature(self.function).parameters.keys() - {PRESET}


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


class _Loader(yaml.SafeLoader):
    """A safe loader, for which a repeated key is a mistake instead of the last one winning."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue  # `<<`: the keys of another mapping, which those here go before
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                break  # the base class raises
            if key in seen:
                reason = f"the key {key!r} stands here for the second time"
                raise yaml.constructor.ConstructorError(None, None, reason, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with hardneg, by name: inside the wheel, or beside the package in a checkout."""
    inside = Path(__file__).parent / "shipped"
    folder = inside if inside.is_dir() else Path(__file__).parents[2] / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}


def named_recipes() -> list[str]:
    """The names of all recipes: those of files that come with hardneg, then the installed functions."""
    return list(dict.fromkeys([*shipped_recipes(), *sorted(point.name for point in entry_points("recipes"))]))


def find_recipe(name: str) -> Path | RecipeFunction:
    """A recipe by its name or by a file's path.

    Raises:
        UsageError: there is none.
        PluginError: it is a function that cannot be imported.
    """
    path, shipped = Path(name), shipped_recipes()
    if path.suffix in {".yaml", ".yml"} or path.is_file():
        if path.is_file():
            return path
        raise UsageError(f"no recipe file {name}")
    if name in shipped:
        return shipped[name]
    if name in (known := named_recipes()):
        return load_function(name)
    reason = f"no recipe is called {name!r}{suggestion(name, known)}; `hardneg recipe list` shows all; or give a path"
    if not any(point.value.startswith("hardneg_papers.") for point in entry_points("recipes")):
        reason += "; the papers' tables and the studies are in the package hardneg-papers, which is not installed: "
        reason += install_command("hardneg-papers")
    raise UsageError(reason)


def read_tree(path: Path) -> dict[str, Any]:
    """A recipe file as a mapping.

    Raises:
        RecipeError: it is not YAML, not a mapping, not UTF-8, or larger than a recipe can be.
    """
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise RecipeError(str(path), ["the file is over 1 MiB: not a recipe"])
        tree = parsed(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or str(error).splitlines()[0]
        where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise RecipeError(str(path), [f"{where}{reason}"]) from None
    except UnicodeDecodeError as error:
        raise RecipeError(str(path), [f"byte {error.start}: not UTF-8"]) from None
    except ValueError as error:
        raise RecipeError(str(path), [f"a value cannot be read: {error}"]) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    if not isinstance(tree, dict):
        raise RecipeError(str(path), ["the file must be a mapping with `dataset`, `model` and `stages`"])
    return tree


def as_yaml(tree: Mapping[str, Any]) -> str:
    """A tree as the text of a recipe."""
    dumper = type("WithoutAnchors", (yaml.SafeDumper,), {"ignore_aliases": lambda self, data: True})
    return str(yaml.dump(tree, None, dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None))


def head_comment(source: Path | RecipeFunction) -> list[str]:
    """The comment lines that open a recipe, without their `#`, or the lines of its function's docstring."""
    if isinstance(source, RecipeFunction):
        return (inspect.getdoc(source.function) or "").splitlines()
    lines = takewhile(lambda line: line.startswith("#"), source.read_text(encoding="utf-8").splitlines())
    return [line.removeprefix("#").removeprefix(" ") for line in lines]


def parse_setting(text: str) -> Any:
    """The value of `KEY=VALUE`, read as YAML; what is none is a text.

    Raises:
        ValueError: it is nothing that a recipe can hold.
    """
    try:
        return parsed(text)
    except yaml.YAMLError:
        check_values(text)
        return text


def parsed(text: str) -> Any:
    """The values of a text. Raises YAMLError, and ValueError where it is nothing that a recipe can hold."""
    try:
        value = yaml.load(text, _Loader)  # a SafeLoader
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    check_values(value)
    return value


def check_values(value: Any, known: dict[int, int] | None = None, level: int = 0) -> int:
    """How many values there are in a tree; what an alias stands for counts each time, but is looked at once.

    Raises:
        ValueError: there are too many, or too deep in one another, or one is nothing that a recipe can hold.
    """
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    if level > _DEEPEST:
        raise ValueError(_TOO_DEEP)
    parts = [*value.keys(), *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else []
    if not isinstance(value, Mapping | list):
        _check_scalar(value)
    count = 1 + sum(check_values(part, known, level + 1) for part in parts)
    if count > _LARGEST_COUNT:
        raise ValueError(f"over {_LARGEST_COUNT} values, aliases followed")
    known[id(value)] = count
    return count


def _check_scalar(value: Any) -> None:
    match value:
        case str() if "\0" in value or value.encode(errors="ignore").decode() != value:
            raise ValueError(f"{value!r:.40} holds a character that is none")
        case float() if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
        case int() if value not in _WHOLE_NUMBERS:
            raise ValueError(f"a whole number of {value.bit_length()} bits; 64 is the most")
        case str() | float() | int() | None:
            pass
        case _:
            raise ValueError(f"{value!r:.40} is a {type(value).__name__}; a text needs quotes here")


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
    tree, _, problems = expand(source, preset, settings)
    if problems:
        raise RecipeError(str(source), problems)
    return "".join(f"# {line}".rstrip() + "\n" for line in head_comment(source)) + as_yaml(tree)


def preset_names(source: Path | RecipeFunction) -> list[str]:
    """The presets of a recipe: those of the one that it extends, then its own."""
    return list(source.presets) if isinstance(source, RecipeFunction) else _read(source).presets


def default_folder(recipe: str, preset: str) -> Path:
    """The run folder of a recipe by default."""
    return Path("runs") / "-".join(filter(None, [recipe, preset]))


def maker(folder: str) -> str | None:
    """The command that makes `folder`, in a shipped recipe's default run folder; None where none does."""
    parts = Path(folder).parts
    for recipe in named_recipes() if len(parts) > 2 else ():
        for preset in preset_names(find_recipe(recipe)) if parts[1].startswith(recipe) else ():
            if parts[:2] == default_folder(recipe, preset).parts:
                return f"hardneg recipe run {recipe} --preset {preset}"
    return None


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
        raise RecipeError(recipe.name, [f"a value cannot be read: {error}"]) from None
    return Expanded(tree, chosen, problems)


class _File(NamedTuple):
    """A recipe's file and what it extends; below: the preset of that, where the file names one; presets to choose."""

    tree: Mapping[str, Any]
    parent: "_File | RecipeFunction | None"
    below: str
    inherited: Collection[str]
    presets: list[str]


def _read(path: Path, trail: tuple[Path, ...] = ()) -> _File:
    """A file and all that it extends."""
    if path.resolve() in trail or len(trail) >= _DEEPEST_EXTENDS:
        reason = f"{EXTENDS}: a circle, or over {_DEEPEST_EXTENDS} deep: {path.name} comes again"
        raise RecipeError(str(trail[0]), [reason])
    tree = read_tree(path)
    if PRESETS in tree and not isinstance(tree[PRESETS], Mapping):
        raise RecipeError(str(path), [f"{PRESETS}: must map a name to the values it changes"])
    presets, written = [*map(str, tree.get(PRESETS) or ())], tree.get(EXTENDS)
    if written is None:
        return _File(tree, None, "", (), presets)
    if not isinstance(written, str):
        raise RecipeError(str(path), [f"{EXTENDS}: must be one recipe's name or path"])
    is_file = Path(written).suffix in {".yaml", ".yml"}
    name, _, below = (written, "", "") if is_file else written.partition(":")
    try:
        source = find_recipe(str(path.parent / name) if is_file else name)
    except HardnegError as error:
        raise RecipeError(str(path), [f"{EXTENDS}: {error}"]) from None
    parent = source if isinstance(source, RecipeFunction) else _read(source, (*trail, path.resolve()))
    inherited = () if below else parent.presets
    return _File(tree, parent, below, inherited, list(dict.fromkeys([*inherited, *presets])))


def _laid(file: _File, preset: str | None) -> Expanded:
    """The tree of a file over that of the recipe which it extends, both in a preset."""
    base, problems, below = dict[str, Any](), list[str](), file.below or (preset if preset in file.inherited else None)
    if file.parent is not None:
        above = file.parent
        base, _, problems = _laid(above, below) if isinstance(above, _File) else _called(above, below, ())
        problems = [f"{EXTENDS}: {problem}" for problem in problems]
    own = {key: value for key, value in file.tree.items() if key not in (EXTENDS, PRESETS)}
    chosen = preset or ("demo" if "demo" in file.presets else "")
    changes = (file.tree.get(PRESETS) or {}).get(chosen) or {}
    if wrong := _no_preset(chosen, file.presets):
        problems.append(wrong)
    elif not isinstance(changes, Mapping):
        problems.append(f"{PRESETS}.{chosen}: must be a mapping of the values that it changes")
        changes = {}
    elif chosen and not NAME.fullmatch(chosen):
        problems.append(f"{PRESETS}: {chosen!r:.60}: a preset's name {NAME_RULE}")
        chosen = ""
    return Expanded(merge(merge(base, own), changes), chosen, problems)


def _no_preset(chosen: str, names: Sequence[str]) -> str:
    """Why a preset cannot be chosen; empty where it can, or none is."""
    if chosen in ("", *names):
        return ""
    return f"{PRESETS}: no preset {chosen!r}{suggestion(chosen, names)}; there are: {', '.join(names) or 'none'}"


def apply_settings(tree: Mapping[str, Any], settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """The tree with each `a.b=value` set, and the problems met; a value is read as YAML."""
    problems: list[str] = []
    changed, written = dict(tree), {setting.partition("=")[0] for setting in settings}
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path or path.count(".") > 20:
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
