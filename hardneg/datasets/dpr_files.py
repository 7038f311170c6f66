"""The lines of DPR's files: passages, and questions with answers and judged passages."""

import ast
import csv
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardneg.counting import counted
from hardneg.data.json_rows import id_field, json_row, read_array, text_field, texts_field
from hardneg.data.text_lines import checked_id, lines_or_errors
from hardneg.errors import DataError
from hardneg.types import Document

_HEADER = ["id", "text", "title"]
_IDS = ("passage_id", "psg_id", "id")
_LONGEST = 1 << 20


@dataclass(frozen=True)
class Question:
    """One question, its answers, the ids of its positive passages; left_out counts its other passages, by reason."""

    text: str
    answers: tuple[str, ...]
    positives: tuple[str, ...] = ()
    left_out: Counter[str] = field(default_factory=Counter)


def passage(path: Path, number: int, line: str) -> Document | None:
    """The passage of one line: id, text and title between tabs, quoted as in CSV; None for the header."""
    cells = _cells(path, number, line)
    if number == 1 and cells == _HEADER:
        return None
    if len(cells) != 3:
        raise DataError.at(path, number, f"{counted(len(cells), 'column')}; an id, a text and a title are expected")
    return Document(checked_id(path, number, cells[0]), *cells[1:])


def read_questions(path: Path) -> Iterator[tuple[int, Question | DataError]]:
    """Lines and questions of a JSON array, of JSON Lines, or of lines of a question, a tab and a list of answers.

    An error is given in the place of what cannot be read; one in a JSON array is the last that is given.
    """
    if path.name.endswith((".json", ".json.gz")):
        try:
            for number, row in read_array(path):
                yield number, _judged_question(path, number, row)
        except DataError as error:
            yield 0, error
        return
    for number, line in lines_or_errors(path):
        try:
            yield number, line if isinstance(line, DataError) else _answered_question(path, number, line)
        except DataError as error:
            yield number, error


def _judged_question(path: Path, number: int, row: dict[str, Any]) -> Question:
    left_out: Counter[str] = Counter()
    positives = []
    for entry in _passages(path, number, row, "positive_ctxs"):
        if any(entry.get(key) not in (None, "") for key in _IDS):
            keys = [key for key in _IDS if entry.get(key) not in (None, "")]
            positives.append(id_field(path, number, entry, *keys))
        else:
            left_out["positive passages left out: they have no id"] += 1
    for key, words in (("negative_ctxs", "negatives"), ("hard_negative_ctxs", "hard negatives")):
        if count := len(_passages(path, number, row, key)):
            left_out[f"{words} left out: a collection holds positives alone"] += count
    answers = texts_field(path, number, row, "answers")
    return Question(text_field(path, number, row, "question"), answers, tuple(positives), left_out)


def _passages(path: Path, number: int, row: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = row.get(key) or []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise DataError.at(path, number, f"{key!r} must be a list of JSON objects")
    return entries


def _answered_question(path: Path, number: int, line: str) -> Question:
    if line.startswith("{"):
        row = json_row(path, number, line)
        answers = texts_field(path, number, row, "answers" if "answers" in row else "answer")
        return Question(text_field(path, number, row, "question"), answers)
    cells = _cells(path, number, line)
    if len(cells) != 2:
        raise DataError.at(
            path, number, f"{counted(len(cells), 'column')}; a question, a tab and a list of answers are expected"
        )
    return Question(cells[0], _listed(path, number, cells[1]))


def _listed(path: Path, number: int, cell: str) -> tuple[str, ...]:
    """The texts of a list written as Python writes it; nothing is evaluated but literals."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an answer with a stray backslash is a SyntaxWarning
            values = ast.literal_eval(cell) if len(cell) < _LONGEST else None
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        values = None
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise DataError.at(path, number, f"answers must be a list of texts such as ['1901'], not {cell[:40]!r}")
    return tuple(values)


def _cells(path: Path, number: int, line: str) -> list[str]:
    try:
        return next(csv.reader([line], delimiter="\t"))
    except csv.Error as error:
        raise DataError.at(path, number, f"not tab-separated values: {error}") from error
