"""Old names in a recipe: each is read as the new one, with a note that says where it stands."""

import dataclasses
from collections.abc import Hashable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel

from hardneg.renamed import Renamed


def with_new_names(kind: type[Any], given: Any, path: str, notes: list[str], problems: list[str]) -> Any:
    """What was given for a class of options, its old names replaced by the new ones; the parts within likewise.

    notes: gets one line for each old name. problems: gets one where the new name stands beside the old one.
    """
    if not isinstance(given, Mapping):
        return given
    if converted := getattr(kind, "converted", None):
        given, told = converted(given)
        notes += [f"{path}: {told}; the next release no longer knows what stands there"] if told else []
    old: Mapping[str, Renamed] = getattr(kind, "renamed", {})
    inner = dict(_parts_by_field(kind))
    found: dict[Any, Any] = {}
    for key, value in given.items():
        if (change := old.get(key)) is None:
            found[key] = with_new_names(inner[key], value, f"{path}.{key}", notes, problems) if key in inner else value
        elif change.name in given:
            problems.append(f"{path}.{key}: the old name of {change.name}, which is given too: leave it out")
        else:
            found[change.name] = change.values.get(value, value) if isinstance(value, Hashable) else value
            now = f"{change.name}: {_yaml(found[change.name])}"
            notes.append(f"{path}.{key}: write {now}; the next release no longer knows {key}")
    return found


def parts(annotation: Any) -> Iterator[type[Any]]:
    """The classes with options of their own that stand in a type."""
    if isinstance(annotation, type) and (issubclass(annotation, BaseModel) or dataclasses.is_dataclass(annotation)):
        yield annotation
    for inner in get_args(annotation):
        yield from parts(inner)


def _parts_by_field(kind: type[Any]) -> Iterator[tuple[str, type[Any]]]:
    for name, info in (kind.model_fields if issubclass(kind, BaseModel) else {}).items():
        for part in parts(info.annotation):
            yield name, part


def _yaml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
