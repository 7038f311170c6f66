"""Names, paths and numbers as functions are given them, checked by the fields of the stages that they are for."""

import os
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

from hardneg.records.errors import UsageError

if TYPE_CHECKING:
    from pydantic.fields import FieldInfo


def names_of(argument: str, given: Any) -> list[str]:
    """One name, or several of any iterable. Raises UsageError where something is no text."""
    names = [given] if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if odd := [name for name in names if not isinstance(name, str)]:
        raise UsageError(f"{{{argument}}}: must be a name or a list of names (got {odd[0]!r:.60})", argument)
    return names


def name_of(argument: str, given: Any) -> str:
    """A text. Raises UsageError where it is none, or empty."""
    if not isinstance(given, str) or not given:
        raise UsageError(f"{{{argument}}}: must be a name (got {given!r:.60})", argument)
    return given


def mapping_of(argument: str, given: Any) -> dict[str, Any]:
    """Values by name. Raises UsageError where it is no dict."""
    if not isinstance(given, Mapping):
        raise UsageError(f"{{{argument}}}: must be a dict of values by name, not {given!r:.60}", argument)
    return dict(given)


def file_path(given: Any, argument: str = "path") -> Path:
    """A path. Raises UsageError where it is none."""
    text = os.fspath(given) if isinstance(given, str | os.PathLike) else None
    if not isinstance(text, str) or not text or "\0" in text:
        raise UsageError(f"{{{argument}}}: must be a path, not {given!r:.60}", argument)
    return Path(text).expanduser()


def files_of(argument: str, given: Any) -> list[Path]:
    """One path, or several. Raises UsageError where something is none."""
    several = given if isinstance(given, Iterable) and not isinstance(given, str | os.PathLike) else [given]
    return [file_path(each, argument) for each in several]


def whole_number(argument: str, given: Any) -> int:
    """A whole number. Raises UsageError where it is none."""
    if not (isinstance(given, Integral) and not isinstance(given, bool)):
        raise UsageError(f"{{{argument}}}: must be a whole number (got {given!r:.60})", argument)
    return int(given)


def at_least_one(argument: str, given: Any) -> int:
    """A count. Raises UsageError where it is no whole number, or less than 1."""
    if whole_number(argument, given) < 1:
        raise UsageError(f"{{{argument}}}: must be at least 1 (got {given!r:.60})", argument)
    return int(given)


def plugin_setting(argument: str, given: Any) -> dict[str, Any]:
    """A plugin with its options beside its `name`, from that, NAME:SOURCE, or its name alone.

    Raises:
        UsageError: it is none of these.
    """
    if isinstance(given, str):
        name, colon, source = given.partition(":")
        return {"name": name, **({"source": source} if colon else {})}
    setting = dict(given) if isinstance(given, Mapping) else {}
    if not isinstance(setting.get("name"), str):
        told = f"must be a name, or a dict of its options with its name, not {given!r:.60}"
        raise UsageError(f"{{{argument}}}: {told}", argument)
    return setting


def plugin_settings(argument: str, given: Any) -> list[dict[str, Any]]:
    """Plugins with their options, from one or several: as `plugin_setting` takes each, or a mapping in YAML.

    Raises:
        UsageError: one is none of these.
    """
    from hardneg.recipe.yaml_load import parse_setting

    several = [given] if isinstance(given, str | Mapping) or not isinstance(given, Iterable) else given
    found = []
    for each in several:
        try:
            read = parse_setting(each) if isinstance(each, str) and each.lstrip().startswith("{") else each
        except ValueError as error:
            raise UsageError(f"{{{argument}}}: {error}", argument) from None
        found.append(plugin_setting(argument, read))
    return found


def verb_field(path: str) -> "FieldInfo":
    """The field of a verb at a path, such as `search.depth`, or `fuse.tuning.metric` of what a field holds."""
    from hardneg.registry.plugins import load_plugin

    verb, *names = path.split(".")
    model: Any = load_plugin("stages", verb)
    for name in names[:-1]:
        held = model.model_fields[name].annotation
        model = next(each for each in (held, *get_args(held)) if hasattr(each, "model_fields"))
    info: FieldInfo = model.model_fields[names[-1]]
    return info


def field_value(path: str, argument: str, given: Any) -> Any:
    """A value as a verb's field takes it: a number within its bounds, and whole where that is; several by name.

    argument: what the line calls it.

    Raises:
        UsageError: the field does not take it.
    """
    from pydantic import TypeAdapter, ValidationError

    from hardneg.records.wording import complaint

    info = verb_field(path)
    kind: Any = Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation
    try:
        return TypeAdapter(kind).validate_python(_plain(given), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([f"{{{argument}}}", *map(str, first["loc"])])
        raise UsageError(f"{place}: {complaint(first)}", argument) from None


def _plain(given: Any) -> Any:
    """Numbers of other libraries as Python's own."""
    if isinstance(given, Mapping):
        return {name: _plain(value) for name, value in given.items()}
    if isinstance(given, list):
        return tuple(map(_plain, given))
    if isinstance(given, bool) or not isinstance(given, Real):
        return given
    return int(given) if isinstance(given, Integral) else float(given)
