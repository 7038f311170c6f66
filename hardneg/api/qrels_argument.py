"""Judgements as a function is given them: a file, or grades by document id by query id."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

from hardneg.api.arguments import AnyQrels
from hardneg.formats.qrels import GRADE_DIGITS, Qrels
from hardneg.formats.text_lines import one_word
from hardneg.records.errors import DataError, UsageError

_SHOWN = 10
_LARGEST = 10**GRADE_DIGITS - 1


def named_qrels(qrels: AnyQrels | None) -> Path | Qrels | None:
    """A file, or checked judgements.

    Raises:
        UsageError: it is neither.
        DataError: an id is none, or a grade is no whole number; all such are told, with their query.
    """
    if qrels is None:
        return None
    if isinstance(qrels, str | os.PathLike):
        return Path(os.fspath(qrels)).expanduser()
    if not isinstance(qrels, Mapping):
        raise UsageError(f"qrels: cannot read {qrels!r:.60}; give a file, or grades by document id by query id")
    if not qrels:
        raise UsageError("qrels is empty; give grades by document id by query id")
    with mistakes_in("qrels") as mistakes:
        judged = {
            query_id: dict(graded(f"[{query_id!r}]", judged_documents, mistakes))
            for query_id, judged_documents in qrels.items()
            if is_id(query_id, "", mistakes)
        }
    return judged


@contextmanager
def mistakes_in(where: str) -> Iterator[list[str]]:
    """A list for the mistakes of one part, which are raised together as DataError when it has been read."""
    problems: list[str] = []
    yield problems
    refuse(problems, where)


def is_id(value: Any, path: str, mistakes: list[str]) -> bool:
    """Whether this may be the id of a query or a document; if not, that is one mistake more."""
    if isinstance(value, str) and one_word(value):
        return True
    problem = f"id {value!r:.60} must be one word, a text without white space"
    mistakes.append(f"{path}: {problem}" if path else problem)
    return False


def refuse(problems: Sequence[str], where: str = "dataset") -> None:
    """Raises DataError where there are problems: a line for each of the first, and how many more there are."""
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        lines = [*problems[:_SHOWN], *more]
        raise DataError("\n".join(f"{where}{'' if line.startswith('[') else ': '}{line}" for line in lines))


def graded(path: str, judged: Any, mistakes: list[str]) -> Iterator[tuple[str, int]]:
    """Document ids and grades of one query; those of a list are relevant. What is neither goes to `mistakes`."""
    wanted = f"{path}: must be grades by document id, or a list of document ids, not"
    if isinstance(judged, str) or not isinstance(judged, Iterable):
        mistakes.append(f"{wanted} {judged!r:.60}")
    elif not isinstance(judged, Mapping) and hasattr(judged, "to_dict"):
        mistakes.append(f"{wanted} {type(judged).__name__}; its to_dict() makes grades")
    else:
        pairs = judged.items() if isinstance(judged, Mapping) else ((doc_id, 1) for doc_id in judged)
        grades = dict[str, int]()
        for doc_id, grade in pairs:
            if not is_id(doc_id, path, mistakes):
                continue
            if isinstance(grade, bool) or not isinstance(grade, Integral):
                mistakes.append(f"{path}[{doc_id!r}]: a grade is a whole number, not {grade!r:.60}")
            elif not -_LARGEST <= grade <= _LARGEST:
                mistakes.append(f"{path}[{doc_id!r}]: a grade has at most {GRADE_DIGITS} digits")
            else:
                grades[doc_id] = int(grade)
        yield from grades.items()
