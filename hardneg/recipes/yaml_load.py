"""Where recipes are, and their YAML read safely."""

import inspect
import math
import re
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import yaml

from hardneg.records import PluginError, RecipeError, UsageError, suggestion
from hardneg.registry import entry_points, install_command

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


SUFFIX = ".yaml"
_MAX_BYTES = 1 << 20


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


class _Dumper(yaml.SafeDumper):
    """A safe dumper without anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def shipped_folder() -> Path:
    """Where the recipes that come with hardneg are: inside the wheel, or beside the package in a checkout."""
    inside = Path(__file__).parent / "shipped"
    return inside if inside.is_dir() else Path(__file__).parents[2] / "recipes"


def shipped_recipes() -> dict[str, Path]:
    """The recipes that come with hardneg, by name."""
    return {path.stem: path for path in sorted(shipped_folder().glob("*" + SUFFIX))}


def is_shipped(source: Path | RecipeFunction) -> bool:
    """Whether a recipe has a name, as a function or as a file that comes with hardneg."""
    return isinstance(source, RecipeFunction) or source.resolve().parent == shipped_folder().resolve()


def named_recipes() -> list[str]:
    """The names of all recipes: those of files that come with hardneg, then the installed functions."""
    return list(dict.fromkeys([*shipped_recipes(), *function_names()]))


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
    if name in function_names():
        return load_function(name)
    known = named_recipes()
    reason = f"no recipe is called {name!r}{suggestion(name, known)}; `hardneg recipe list` shows all; or give a path"
    if not any(point.value.startswith("hardneg_papers.") for point in entry_points("recipes")):
        reason += f"; the papers' tables and the studies are in the package {PACKAGE}, which is not installed: "
        reason += install_command(PACKAGE)
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
    return yaml.dump(tree, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


def head_comment(source: Path | RecipeFunction) -> list[str]:
    """The comment lines that open a recipe, without their `#`, or the lines of its function's docstring."""
    if isinstance(source, RecipeFunction):
        return source.head
    lines = []
    for line in source.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            break
        lines.append(line.removeprefix("#").removeprefix(" "))
    return lines


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


NAME = re.compile(r"\w[\w .-]{0,49}")
"""What may name a stage or a preset: files and folders are called by it."""
NAME_RULE = "begins with a letter or digit and has letters, digits, '.', '_', '-' and spaces, 50 at most"
_LARGEST_COUNT = 100_000
_DEEPEST = 50
_TOO_DEEP = f"over {_DEEPEST} levels deep"
_WHOLE_NUMBERS = range(-(2**63), 2**63)


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
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list):
        parts = value
    else:
        _check_scalar(value)
    count = 1 + sum(check_values(part, known, level + 1) for part in parts)
    if count > _LARGEST_COUNT:
        raise ValueError(f"over {_LARGEST_COUNT} values, aliases followed")
    known[id(value)] = count
    return count


def _check_scalar(value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value or value.encode(errors="ignore").decode() != value:
            raise ValueError(f"{value!r:.40} holds a character that is none")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
    elif isinstance(value, int):
        if value not in _WHOLE_NUMBERS:
            raise ValueError(f"a whole number of {value.bit_length()} bits; 64 is the most")
    elif value is not None:
        raise ValueError(f"{value!r:.40} is a {type(value).__name__}; a text needs quotes here")
