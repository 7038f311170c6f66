"""Help of a plugin: its options and their meanings, from its class; its summary or an error, from its source."""

import ast
import dataclasses
import importlib.machinery
import importlib.util
import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin


def static_problem(target: str) -> str:
    """Return why `module:Class` cannot be loaded, from the source alone; empty if it can."""
    module, _, attribute = target.partition(":")
    if not attribute:
        return f"its target {target!r} is not of the form module:Class"
    try:
        source = _find_source(module)
        if source is None:
            return f"there is no module {module}"
        tree = ast.parse(source.read_text(encoding="utf-8"))
    except SyntaxError as error:
        return f"{module} line {error.lineno}: {error.msg}"
    except (OSError, UnicodeDecodeError, ValueError) as error:
        return f"{module} cannot be read: {error}"
    return "" if attribute in _names_bound(tree) else f"{module} has no {attribute}"


def plugin_summary(target: str) -> str:
    """Return the first sentence of the docstring of a class or function, from its source; nothing is imported."""
    module, _, attribute = target.partition(":")
    source = _find_source(module)
    if source is None:
        return ""
    nodes = ast.parse(source.read_text("utf-8")).body
    named = (node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == attribute)
    documented = (ast.get_docstring(node) or "" for node in named)
    return " ".join(next(documented, "").partition("\n\n")[0].split()).partition(". ")[0].rstrip(".")


def _find_source(module: str) -> Path | None:
    search: list[str] | None = None
    spec: importlib.machinery.ModuleSpec | None = None
    parts = module.split(".")
    for depth in range(len(parts)):
        name = ".".join(parts[: depth + 1])
        spec = importlib.util.find_spec(name) if depth == 0 else importlib.machinery.PathFinder.find_spec(name, search)
        if spec is None:
            return None
        search = list(spec.submodule_search_locations or [])
    return Path(spec.origin) if spec and spec.origin else None


def _names_bound(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def plugin_options(plugin: type[Any]) -> list[Mapping[str, str]]:
    """Return a mapping for each option: `name`, `type`, `default` (empty: required), `meaning` from the docstring."""
    rows = list(_model_rows(plugin) if hasattr(plugin, "model_fields") else _dataclass_rows(plugin))
    meanings = _meanings(plugin, [row["name"] for row in rows])
    return [{**row, "meaning": row.get("meaning") or meanings.get(row["name"], "")} for row in rows]


def plugin_text(plugin: type[Any]) -> str:
    """Return the docstring of a plugin's class without its options."""
    text, *_ = re.split(r"\n(?:Args|Attributes|Options):", inspect.cleandoc(plugin.__doc__ or ""))
    if hasattr(plugin, "model_fields"):
        text, *_ = _said_of(plugin.model_fields).split(text)
    return text.strip()


def _dataclass_rows(plugin: type[Any]) -> Iterator[dict[str, str]]:
    for field in dataclasses.fields(plugin):
        default = "" if field.default is dataclasses.MISSING else repr(field.default)
        if field.default_factory is not dataclasses.MISSING:
            default = repr(field.default_factory())
        meaning = field.metadata.get("help", "")
        yield {"name": field.name, "type": _type(field.type), "default": default, "meaning": meaning}


def _model_rows(plugin: type[Any]) -> Iterator[dict[str, str]]:
    """Return the fields of a model; its verb is no option."""
    for name, field in plugin.model_fields.items():
        if name == "stage":
            continue
        default = "" if field.is_required() else repr(field.get_default(call_default_factory=True))
        yield {"name": name, "type": _type(field.annotation), "default": default, "meaning": field.description or ""}


def _type(annotation: Any) -> str:
    """Return a type as source text, without modules and marks."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0])
    if origin in (Union, UnionType):
        return " | ".join(map(_type, inner))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin is not None:
        return f"{origin.__name__}[{', '.join('...' if item is ... else _type(item) for item in inner)}]"
    return annotation if isinstance(annotation, str) else "None" if annotation is NoneType else annotation.__name__


def _meanings(plugin: type[Any], names: Iterable[str]) -> dict[str, str]:
    """Return the meanings of options in docstrings, bases first: from an `Args:` section, or `NAME: text.` in prose."""
    from docstring_parser import google

    meanings: dict[str, str] = {}
    for base in reversed(plugin.__mro__):
        written = base.__dict__.get("__doc__") or ""
        listed = {one.arg_name: " ".join((one.description or "").split()) for one in google.parse(written).params}
        if listed or not hasattr(plugin, "model_fields"):
            meanings |= listed
            continue
        _, *rest = _said_of(names).split(" ".join(written.split()))
        meanings |= {name: meaning.strip() for name, meaning in zip(rest[::2], rest[1::2], strict=True)}
    return meanings


def _said_of(names: Iterable[str]) -> re.Pattern[str]:
    """Match `NAME: ` of a field in prose."""
    return re.compile(rf"(?:^|(?<=[.\s]))({'|'.join(map(re.escape, names)) or '(?!)'}): ")
