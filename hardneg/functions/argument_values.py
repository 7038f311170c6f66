"""Names, paths and numbers as functions are given them, checked by the fields of the stages that they are for."""

import os
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from hardneg.records import UsageError, complaint

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


_LONGEST = 255  # characters of a file's name


def names_of(argument: str, value: Any) -> list[str]:
    """One name, or several of any iterable. Raises UsageError where something is no text."""
    names = [value] if isinstance(value, str) or not isinstance(value, Iterable) else list(value)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise UsageError(f"{{{argument}}}: must be a name or a list of names (got {odd[0]!r:.60})", argument)
    return names


def name_of(argument: str, value: Any) -> str:
    """A text. Raises UsageError where it is none, or empty."""
    if not isinstance(value, str) or not value:
        raise UsageError(f"{{{argument}}}: must be a name (got {value!r:.60})", argument)
    return value


def mapping_of(argument: str, value: Any) -> dict[str, Any]:
    """Values by name. Raises UsageError where it is no dict."""
    if not isinstance(value, Mapping):
        raise UsageError(f"{{{argument}}}: must be a dict of values by name, not {value!r:.60}", argument)
    return dict(value)


def file_path(value: Any, argument: str = "path") -> Path:
    """A path. Raises UsageError where it is none, or longer than any."""
    text = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text or max(map(len, text.split("/"))) > _LONGEST:
        raise UsageError(f"{{{argument}}}: must be a path, not {value!r:.60}", argument)
    return Path(text).expanduser()


def files_of(argument: str, value: Any) -> list[Path]:
    """One path, or several. Raises UsageError where something is none."""
    several = value if isinstance(value, Iterable) and not isinstance(value, str | os.PathLike) else [value]
    return [file_path(each, argument) for each in several]


def whole_number(argument: str, value: Any) -> int:
    """A whole number. Raises UsageError where it is none."""
    if not (isinstance(value, Integral) and not isinstance(value, bool)):
        raise UsageError(f"{{{argument}}}: must be a whole number (got {value!r:.60})", argument)
    return int(value)


def at_least_one(argument: str, value: Any) -> int:
    """A count. Raises UsageError where it is no whole number, or less than 1."""
    if whole_number(argument, value) < 1:
        raise UsageError(f"{{{argument}}}: must be at least 1 (got {value!r:.60})", argument)
    return int(value)


def plugin_setting(argument: str, value: Any) -> dict[str, Any]:
    """A plugin with its options beside its `name`, from that, NAME:SOURCE, or its name alone.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(value, str):
        name, colon, source = value.partition(":")
        return {"name": name, **({"source": source} if colon else {})}
    setting = dict(value) if isinstance(value, Mapping) else {}
    if not isinstance(setting.get("name"), str):
        problem = f"must be a name, or a dict of its options with its name, not {value!r:.60}"
        raise UsageError(f"{{{argument}}}: {problem}", argument)
    return setting


def plugin_settings(argument: str, value: Any) -> list[dict[str, Any]]:
    """Plugins with their options, from one or several: as `plugin_setting` takes each, or a mapping in YAML.

    Raises:
        UsageError: one is none of these.
    """
    from hardneg.recipes import parse_setting

    several = [value] if isinstance(value, str | Mapping) or not isinstance(value, Iterable) else value
    settings = []
    for each in several:
        try:
            read = parse_setting(each) if isinstance(each, str) and each.lstrip().startswith("{") else each
        except ValueError as error:
            raise UsageError(f"{{{argument}}}: {error}", argument) from None
        settings.append(plugin_setting(argument, read))
    return settings


def stage(verb: str, fields: Mapping[str, Any], names: Mapping[str, str] = {}) -> dict[str, Any]:
    """The stage of a verb with these fields, each as the verb takes it; None where that is a default is left out.

    names: what the caller calls some of the fields. A field of what another holds has a path, such as `tuning.grid`.

    Raises:
        UsageError: fields do not take their values; all are told.
    """
    values, problems, wrong = {"stage": verb}, list[str](), list[str]()
    for path, value in fields.items():
        info, name = verb_field(f"{verb}.{path}"), names.get(path, path.rpartition(".")[2])
        if value is None and info.default is None:
            continue
        try:
            values[path] = field_value(info, name, value)
        except UsageError as error:
            problems, wrong = [*problems, error.message], [*wrong, name]
    if problems:
        raise UsageError("\n".join(problems), *wrong)
    return values


def verb_field(path: str) -> "FieldInfo":
    """The field of a verb at a path, such as `search.depth`, or `fuse.tuning.metric` of what a field holds."""
    from hardneg.registry import load_plugin

    verb, *names = path.split(".")
    model: Any = load_plugin("stages", verb)
    for name in names[:-1]:
        held = model.model_fields[name].annotation
        model = next(each for each in (held, *get_args(held)) if hasattr(each, "model_fields"))
    info: FieldInfo = model.model_fields[names[-1]]
    return info


def field_value(info: "FieldInfo", argument: str, value: Any) -> Any:
    """A value as a field takes it: plugins with options, paths, a number within bounds, and whole where that is.

    Raises:
        UsageError: the field does not take it.
    """
    from pydantic import TypeAdapter, ValidationError

    from hardneg.fields import InputFile, PluginKind

    several = get_origin(info.annotation) is tuple
    if any(isinstance(mark, InputFile) for mark in info.metadata):
        files = [str(path) for path in files_of(argument, value)] if several else [str(file_path(value, argument))]
        return files if several else files[0]
    if any(isinstance(mark, PluginKind) for mark in info.metadata):
        return (plugin_settings if several else plugin_setting)(argument, value)
    annotation: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    try:
        return TypeAdapter(annotation).validate_python(_plain(value), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        location = ".".join([f"{{{argument}}}", *map(str, first["loc"])])
        raise UsageError(f"{location}: {complaint(first)}", argument) from None


def _plain(number: Any) -> Any:
    """Numbers of other libraries as Python's own."""
    if isinstance(number, Mapping):
        return {name: _plain(value) for name, value in number.items()}
    if isinstance(number, list):
        return tuple(map(_plain, number))
    if isinstance(number, bool) or not isinstance(number, Real):
        return number
    return int(number) if isinstance(number, Integral) else float(number)
