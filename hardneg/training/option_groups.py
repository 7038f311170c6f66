"""Options in groups: an option is one field with its meaning and bounds; a group checks its own options."""

from collections.abc import Iterator
from dataclasses import field, fields
from typing import Any


def option(
    default: Any, meaning: str, *, least: float | None = None, above: float | None = None, key: Any = None
) -> Any:
    """A field of a dataclass of options; `key`: `FREE` or `LATER`, where it does not always count in keys."""
    bounds = {"least": least, "above": above}
    return field(default=default, metadata={"help": meaning, **bounds, **(key or {})})


def again(owner: type[Any], name: str, default: Any) -> Any:
    """Repeat the option of another class, with another default."""
    (inherited,) = (each for each in fields(owner) if each.name == name)
    return field(default=default, metadata=inherited.metadata)


def out_of_bounds(options: Any) -> Iterator[str]:
    """Yield a line for each option below its `least`, or not above its `above`."""
    for each in fields(options):
        value, least, above = getattr(options, each.name), each.metadata.get("least"), each.metadata.get("above")
        if value is not None and least is not None and not value >= least:
            yield f"{each.name} must be {least} or above, not {value}"
        if value is not None and above is not None and not value > above:
            yield f"{each.name} must be above {above}, not {value}"


def gathered(options: object, hook: str, *arguments: object) -> Iterator[Any]:
    """Yield the results of a hook, of the options' class and of each of its groups that defines it."""
    for group in type(options).__mro__:
        if hook in vars(group):
            yield from vars(group)[hook](options, *arguments)
