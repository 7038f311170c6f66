"""Options in groups: an option is said once, as a field with its meaning and bounds, and a group says its mistakes."""

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
    """The option of another class, with another default."""
    (inherited,) = (each for each in fields(owner) if each.name == name)
    return field(default=default, metadata=inherited.metadata)


def out_of_bounds(options: Any) -> Iterator[str]:
    """One line for each option that is given and is below its `least`, or not above its `above`."""
    for each in fields(options):
        value, least, above = getattr(options, each.name), each.metadata.get("least"), each.metadata.get("above")
        if value is not None and least is not None and not value >= least:
            yield f"{each.name} must be {least} or above, not {value}"
        if value is not None and above is not None and not value > above:
            yield f"{each.name} must be above {above}, not {value}"


def gathered(options: object, hook: str, *arguments: object) -> Iterator[Any]:
    """What the class of some options, and each group that it is made of, says by a method of its own."""
    for group in type(options).__mro__:
        if hook in vars(group):
            yield from vars(group)[hook](options, *arguments)
