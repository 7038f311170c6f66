"""The cells of a table's rows: ids, texts, whole numbers; a mistake is a `DataError` with table and row."""

from typing import Any

from hardneg.data.text_lines import one_word
from hardneg.errors import DataError


def _value(where: str, number: int, row: dict[str, Any], column: str) -> Any:
    if column not in row:
        known = ", ".join(row)
        raise DataError.at(where, number, f"no column {column!r} among {known}; name it in `columns`")
    return row[column]


def text_cell(where: str, number: int, row: dict[str, Any], column: str) -> str:
    """The text in a column. Raises DataError where it is missing or no text."""
    value = _value(where, number, row, column)
    if not isinstance(value, str):
        raise DataError.at(where, number, f"column {column!r} must hold text, not {value!r:.40}")
    return value


def id_cell(where: str, number: int, row: dict[str, Any], column: str) -> str:
    """The id in a column, maybe a whole number. Raises DataError where it is missing or not one word."""
    value = _value(where, number, row, column)
    name = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(name, str) or not one_word(name):
        raise DataError.at(where, number, f"column {column!r} must hold ids of one word, not {value!r:.40}")
    return name


def whole_cell(where: str, number: int, row: dict[str, Any], column: str) -> int:
    """The whole number in a column. Raises DataError where it is missing or something else."""
    value = _value(where, number, row, column)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise DataError.at(where, number, f"column {column!r} must hold whole numbers, not {value!r:.40}")
    return int(value)
