"""The options that enter an artifact's key: one rule, and the marks that it reads."""

from collections.abc import Collection, Mapping
from dataclasses import fields
from typing import Any

_MARK = "in_identity"
FREE: dict[str, Any] = {_MARK: False}
"""Marks a field of a pydantic model that cannot change a result: it is in no key."""

LATER: dict[str, Any] = {_MARK: "unless it has its default"}
"""Marks a field that is newer than stored artifacts: it enters a key when it differs from its default."""

_WORDS: Mapping[str, tuple[str, Mapping[Any, str]]] = {
    "iterate_negatives": ("order", {True: "consecutive"}),
    "false_negative_mask": ("mask", {False: "none"}),
}
"""Training options that have another name, and other values, in keys."""


def options_in_key(options: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the options that may change a result, by name, as JSON values; defaults included.

    An option never counts where it is marked `FREE`, and counts with another value than its default alone where it is
    marked `LATER`. A dataclass has these marks in its fields' metadata, or lists such options in its class
    variables `free` and `later`.

    Args:
        options: a pydantic model or a dataclass.
        without: options to leave out, as their content counts instead.
    """
    from pydantic import BaseModel, TypeAdapter

    cls = type(options)
    if isinstance(options, BaseModel):
        known = [(name, info.default, info.json_schema_extra) for name, info in cls.model_fields.items()]
    else:
        known = [(each.name, each.default, each.metadata) for each in fields(cls)]
    marks = {name: (default, extra.get(_MARK)) for name, default, extra in known if isinstance(extra, Mapping)}
    free = {*getattr(cls, "free", ()), *(name for name, (_, mark) in marks.items() if mark == FREE[_MARK])}
    later = {name: getattr(cls, name) for name in getattr(cls, "later", ())}
    later |= {name: default for name, (default, mark) in marks.items() if mark == LATER[_MARK]}
    unchanged = {name for name, default in later.items() if getattr(options, name) == default}
    left_out = {*without, *free, *unchanged}
    counted: dict[str, Any] = TypeAdapter(cls).dump_python(options, mode="json", exclude=left_out, warnings=False)
    return counted


def plugin_identity(name: str, plugin: Any, without: Collection[str] = ()) -> dict[str, Any]:
    """Return what a configured plugin adds to a key: its name, its version, and its options that count."""
    return {"name": name, "version": type(plugin).version, "options": options_in_key(plugin, without)}


def in_words_of_keys(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return training options with their names and values in keys."""
    renamed = {}
    for name, value in options.items():
        word, values = _WORDS.get(name, (name, {}))
        renamed[word] = values.get(value, value) if values else value
    return renamed
