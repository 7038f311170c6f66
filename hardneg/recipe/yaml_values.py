"""What a value of a recipe may be: plain, finite, of bounded size, whatever YAML can say."""

import math
import re
from collections.abc import Mapping
from typing import Any

NAME = re.compile(r"\w[\w .-]{0,49}")
"""What may name a stage or a preset: files and folders are called by it."""
NAME_RULE = "begins with a letter or digit and has letters, digits, '.', '_', '-' and spaces, 50 at most"
_LARGEST_COUNT = 100_000
_DEEPEST = 50
_WHOLE_NUMBERS = range(-(2**63), 2**63)


def check_values(value: Any, known: dict[int, int] | None = None, depth: int = 0) -> int:
    """How many values there are in a tree; what an alias stands for counts each time, but is looked at once.

    Raises:
        ValueError: there are too many, or too deep in one another, or one is nothing that a recipe can hold.
    """
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)]
    if depth > _DEEPEST:
        raise ValueError(f"over {_DEEPEST} levels deep")
    parts: list[Any] = []
    if isinstance(value, Mapping):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, list):
        parts = value
    else:
        _check_scalar(value)
    count = 1 + sum(check_values(part, known, depth + 1) for part in parts)
    if count > _LARGEST_COUNT:
        raise ValueError(f"over {_LARGEST_COUNT} values, aliases followed")
    known[id(value)] = count
    return count


def _check_scalar(value: Any) -> None:
    if isinstance(value, str):
        if "\0" in value or not _is_unicode(value):
            raise ValueError(f"{value!r:.40} holds a character that is none")
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} is not a finite number")
    elif isinstance(value, int):
        if value not in _WHOLE_NUMBERS:
            raise ValueError(f"a whole number of {value.bit_length()} bits; 64 is the most")
    elif value is not None:
        raise ValueError(f"{value!r:.40} is a {type(value).__name__}; a text needs quotes here")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
