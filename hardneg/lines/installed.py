"""The lines that are installed, found by the entry points `hardneg.lines`; listing imports none of them."""

from typing import TYPE_CHECKING

from hardneg.records.errors import PluginError

if TYPE_CHECKING:
    from hardneg.lines.base import Line

GROUP = "lines"


def line_targets() -> dict[str, str]:
    """Where the class of each line is, by the line's name."""
    from hardneg.registry.plugins import entry_points

    return {point.name: point.value for point in sorted(entry_points(GROUP), key=lambda point: point.name)}


def line_of(name: str) -> "type[Line]":
    """The class of a line, by the name of its command or of its function, which has underscores for hyphens.

    Raises:
        AttributeError: there is no such line.
        PluginError: it cannot be imported, or two packages have one of that name.
    """
    from hardneg.registry.plugins import entry_points

    points = [point for point in entry_points(GROUP) if point.name.replace("-", "_") == name.replace("-", "_")]
    if not points:
        raise AttributeError(f"module 'hardneg' has no attribute {name!r}")
    if len(points) > 1:
        packages = " and ".join(sorted(point.dist.name for point in points if point.dist))
        raise PluginError(f"the line {name!r} is claimed by {packages}; uninstall one of them")
    try:
        line: type[Line] = points[0].load()
    except Exception as error:
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
        raise PluginError(f"the line {name!r} ({points[0].value}) cannot be imported ({reason})") from error
    return line
