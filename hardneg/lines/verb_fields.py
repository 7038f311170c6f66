"""Arguments of lines from the fields of verbs: what a verb's class says of a field, as a command and a function do."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo

from hardneg.api.argument_values import field_value, file_path, files_of, plugin_setting, plugin_settings, verb_field
from hardneg.fields import InputFile, Option, PluginKind, known_measure, known_metric
from hardneg.lines.base import REQUIRED, Argument
from hardneg.records.types import PluginSetting

_FEW = 4
"""So many values of a field are a choice of the command's; more are completed."""


def argument_of(path: str, name: str) -> Argument:
    """The argument that a field of a verb is, by the name that a line gives it."""
    info = verb_field(path)
    marks = [each for each in info.metadata if not isinstance(each, Option)]
    mark = next((each for each in info.metadata if isinstance(each, Option)), Option())
    files = any(isinstance(each, InputFile) for each in marks)
    kind = next((each.kind for each in marks if isinstance(each, PluginKind)), "")
    form = _form(info.annotation, files)
    several = get_origin(form) is list
    choices = get_args(form) if get_origin(form) is Literal else ()
    return Argument(
        name,
        info.description or "",
        _type(info.annotation, files),
        REQUIRED if info.is_required() else info.get_default(call_default_factory=True),
        str if len(choices) > _FEW else form,
        partial(plugin_settings if several else plugin_setting, name)
        if kind
        else partial(_files, name, form)
        if files
        else partial(field_value, path, name),
        mark.flag,
        mark.same,
        "" if several else kind,
        mark.metavar,
        mark.panel,
        choices,
        any(getattr(each, "func", None) in (known_metric, known_measure) for each in all_marks(info)),
        least(info.metadata) if form is int else None,
    )


def _files(name: str, form: Any, value: Any) -> Any:
    paths = [str(path) for path in files_of(name, value)]
    if get_origin(form) is list:
        return paths
    return paths[0] if paths else str(file_path(value, name))


def all_marks(info: FieldInfo) -> Iterator[Any]:
    """The marks of a field and of what it holds."""
    yield from info.metadata
    for inner in get_args(info.annotation):
        if get_origin(inner) is Annotated:
            yield from get_args(inner)[1:]


def least(marks: Sequence[Any]) -> int | None:
    """The lowest whole number that the marks of a field allow."""
    for mark in marks:
        if getattr(mark, "gt", None) is not None:
            return int(mark.gt) + 1
        if getattr(mark, "ge", None) is not None:
            return int(mark.ge)
    return None


def _form(annotation: Any, files: bool) -> Any:
    """What a terminal gives for a field of this type."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _form(inner[0], files)
    if origin in (Union, UnionType):
        return _form(next(each for each in inner if each is not NoneType), files)
    if origin in (dict, Mapping):
        return dict[str, _form(inner[1], files)]  # type: ignore[misc]
    if origin is tuple:
        return list[_form(inner[0], files)]  # type: ignore[misc]
    if files:
        return Path
    return annotation if origin is Literal or annotation in (int, float, bool) else str


def _type(annotation: Any, files: bool) -> str:
    """A field's type as a signature has it in source."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(inner[0], files)
    if origin in (Union, UnionType):
        return " | ".join(dict.fromkeys(_type(each, files) for each in inner))
    if origin is Literal:
        return f"Literal[{', '.join(map(json.dumps, inner))}]"
    if origin in (dict, Mapping):
        return f"Mapping[str, {_type(inner[1], files)}]"
    if origin is tuple:
        one = _type(inner[0], files)
        return f"{one} | Sequence[{one}]" if files else f"Sequence[{one}]"
    if annotation is PluginSetting:
        return "str | Mapping[str, Any]"
    return "None" if annotation is NoneType else "str | Path" if files else annotation.__name__
