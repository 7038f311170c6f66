"""Wording of messages: counts, sizes, suggestions, and explanations of pydantic's errors."""

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from math import isfinite
from typing import Any

from hardneg.records.layout import INFONCE

_WHOLE, _NUMBER, _LIST, _MAPPING = "a whole number", "a number", "a list", "a mapping of names to values"
_RULES = {
    **dict.fromkeys(("int_type", "int_parsing", "int_parsing_size", "int_from_float"), _WHOLE),
    **dict.fromkeys(("float_type", "float_parsing"), _NUMBER),
    **dict.fromkeys(("bool_type", "bool_parsing"), "true or false"),
    **dict.fromkeys(("list_type", "tuple_type", "set_type", "iterable_type"), _LIST),
    **dict.fromkeys(("dict_type", "mapping_type", "model_type", "model_attributes_type", "dataclass_type"), _MAPPING),
    "string_type": "a string",
    "finite_number": "a finite number",
    "none_required": "left empty",
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "multiple_of": "a multiple of {multiple_of}",
    "literal_error": "{expected}",
    "enum": "{expected}",
}
_LENGTHS = {
    "too_short": "have a length of at least {min_length}, not {actual_length}",
    "too_long": "have a length of at most {max_length}, not {actual_length}",
    "string_too_short": "have at least {min_length} characters",
    "string_too_long": "have at most {max_length} characters",
    "string_pattern_mismatch": "match the pattern {pattern}",
}


def complaint(item: Mapping[str, Any]) -> str:
    """Describe an item of `ValidationError.errors()` in one line, with the required and the actual value."""
    error_type, context, got = item["type"], item.get("ctx", {}), item["input"]
    if error_type in ("missing", "missing_argument"):
        return "missing"
    if error_type in _RULES:
        rule = f"must be {_RULES[error_type].format(**context)}"
    elif error_type in _LENGTHS:
        counted_length = context.get("actual_length")  # None if there are too many to count
        length = len(got) if counted_length is None and hasattr(got, "__len__") else counted_length
        rule = f"must {_LENGTHS[error_type].format(**{**context, 'actual_length': length})}"
    else:
        rule = str(item["msg"]).removeprefix("Value error, ").replace("Input should ", "must ", 1)
    if error_type == "value_error" and isinstance(got, Mapping):
        return rule
    quoted = str(context.get("expected", "")).split("'")[1::2]
    hint = suggestion(str(got), quoted) if error_type in ("literal_error", "enum") else ""
    return f"{rule} (got {got!r:.60}){hint}"


def not_finite(value: Any, path: str = "") -> Iterator[tuple[str, float]]:
    """Yield the dotted path and value of each infinity or NaN inside a value. path: the path of the value itself."""
    if isinstance(value, float) and not isfinite(value):
        yield path, value
    is_model = hasattr(type(value), "model_fields") or is_dataclass(value)
    inner = getattr(value, "__dict__", value) if is_model else value
    if isinstance(inner, Mapping):
        for name, each in inner.items():
            yield from not_finite(each, f"{path}.{name}" if path else str(name))
    elif isinstance(inner, list | tuple):
        for number, each in enumerate(inner):
            yield from not_finite(each, f"{path}.{number}")


def mistakes(error: Any) -> list[Any]:
    """Return the errors of a pydantic `ValidationError`, except `too_short` for lists that have invalid items."""
    errors = error.errors()
    return [
        item
        for item in errors
        if item["type"] != "too_short"
        or not any(other is not item and other["loc"][: len(item["loc"])] == item["loc"] for other in errors)
    ]


_ELSEWHERE = {
    "lr": ("learning_rate",),
    "mnrl": (INFONCE,),
    "multiplenegativesrankingloss": (INFONCE,),
    "num_train_epochs": ("epochs",),
    "per_device_train_batch_size": ("batch_size",),
    "num_negatives": ("negatives_per_query", "count", "miner"),
}
"""The equivalent names in hardneg for names in transformers and sentence-transformers, in lower case."""


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` with a synonym or the nearest spelling in `known`; empty if nothing is near."""
    names = list(known)
    close = [name for name in _ELSEWHERE.get(word.lower(), ()) if name in names]
    close += difflib.get_close_matches(word, names, n=1, cutoff=0.6)
    return f"; did you mean {close[0]!r}?" if close else ""


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def joined(names: Sequence[str]) -> str:
    """Join names with commas, and `and` before the last."""
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)


def counted(count: int, one: str, more: str = "") -> str:
    """Return a count with a noun, such as `1,200 queries`. one: the singular. more: the plural, if irregular."""
    more = more or (f"{one[:-1]}ies" if one.endswith("y") else f"{one}s")
    return f"{count:,} {one if count == 1 else more}"


def size(count: float) -> str:
    """Return a number of bytes in readable units, such as `1.5 GB`."""
    for unit in ("B", "KB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def duration(seconds: float) -> str:
    """Return a duration in readable units, such as `5 min`."""
    if seconds < 1:
        return "<1 s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
