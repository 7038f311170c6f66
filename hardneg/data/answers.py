"""The short answers to the queries of one split, as JSON Lines; a split without answers has no such file."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

from hardneg.atomic_write import replacing
from hardneg.data.json_rows import id_field, json_row, texts_field
from hardneg.data.text_lines import read_lines
from hardneg.types import Answers


def write_answers(path: Path, answers: Iterable[Answers]) -> int:
    """Writes `{"query_id", "answers"}` for each query that has answers, and returns how many there are.

    Where there is none, nothing is written.
    """
    rows: Iterator[dict[str, object]] = (
        {"query_id": query_id, "answers": list(texts)} for query_id, texts in answers if texts
    )
    first = next(rows, None)
    if first is None:
        return 0
    with replacing(path) as file:
        file.write(_line(first))
        return 1 + sum(bool(file.write(_line(row))) for row in rows)


def read_answers(path: Path) -> dict[str, tuple[str, ...]]:
    """The answers by query id; none where there is no such file. Raises DataError where a line is malformed."""
    if not path.exists():
        return {}
    rows = ((number, json_row(path, number, line)) for number, line in read_lines(path))
    return {id_field(path, number, row, "query_id"): texts_field(path, number, row, "answers") for number, row in rows}


def _line(row: dict[str, object]) -> bytes:
    return json.dumps(row, ensure_ascii=False).encode() + b"\n"
