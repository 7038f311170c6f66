"""What a server answers, checked: one vector a text, in the order of the texts."""

import base64
import binascii
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray


class BadAnswer(Exception):
    """An answer that holds no vectors, or not those that were asked for; its text says what is wrong."""


def vectors_of(body: bytes, count: int) -> NDArray[np.float32]:
    """The vectors of an answer to `count` texts, float32 [count, d], by their `index`.

    They stand as lists of numbers, or as base64 of little-endian float32.

    Raises:
        BadAnswer: it is no JSON of that form, a vector lacks or stands twice, they are of several dimensions, or one is
            not finite.
    """
    rows = _rows(body)
    if len(rows) != count:
        raise BadAnswer(f"{len(rows)} vectors for {count} texts")
    positions = [position for row in rows if type(position := row.get("index")) is int]
    if sorted(positions) != list(range(count)):
        raise BadAnswer(f"the vectors' `index` are not 0 to {count - 1}, each once")
    parts = [_vector(row) for row in rows]
    if len(dimensions := {len(part) for part in parts}) > 1:
        raise BadAnswer(f"vectors of {' and '.join(map(str, sorted(dimensions)))} numbers in one answer")
    ordered = np.empty((count, len(parts[0])), np.float32)
    ordered[positions] = parts
    if not ordered.shape[1] or not np.isfinite(ordered).all():
        raise BadAnswer("a vector is empty, or not finite")
    return ordered


def _rows(body: bytes) -> list[dict[str, Any]]:
    try:
        rows = json.loads(body)["data"]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise BadAnswer("no JSON with `data`") from error
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise BadAnswer("`data` is no list of objects")
    return rows


def _vector(row: dict[str, Any]) -> NDArray[np.float32]:
    value = row.get("embedding")
    try:
        if isinstance(value, str):
            return np.frombuffer(base64.b64decode(value, validate=True), "<f4")
        if isinstance(value, list) and set(map(type, value)) <= {int, float}:
            with np.errstate(over="ignore"):
                return np.array(value, np.float64).astype(np.float32)
    except (binascii.Error, ValueError, OverflowError) as error:
        raise BadAnswer("an `embedding` cannot be read as float32 numbers") from error
    raise BadAnswer("an `embedding` is neither a list of numbers nor base64")
