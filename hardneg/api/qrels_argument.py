"""Judgements as a function is given them: a file, or grades by document id by query id."""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any

from hardneg.formats.qrels import GRADE_DIGITS, Qrels
from hardneg.formats.text_lines import one_word
from hardneg.records.errors import DataError, UsageError

AnyQrels = str | Path | Mapping[str, Mapping[str, int] | Iterable[str]]
"""A file in TREC's or BEIR's form; or grades by document id, or a list of the relevant ones, by query id."""

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
    with Mistakes("qrels") as mistakes:
        judged = {
            query_id: dict(graded(f"[{query_id!r}]", judged_documents, mistakes))
            for query_id, judged_documents in qrels.items()
            if mistakes.takes_id("", query_id)
        }
    return judged


class Mistakes:
    """Those of one part, told together when it has been read."""

    def __init__(self, where: str = "dataset") -> None:
        self._where = where
        self._problems: list[str] = []

    def add(self, problem: str) -> None:
        """One more."""
        self._problems.append(problem)

    def takes_id(self, path: str, value: Any) -> bool:
        """Whether this may be the id of a query or a document; if not, one more."""
        if isinstance(value, str) and one_word(value):
            return True
        problem = f"id {value!r:.60} must be one word, a text without white space"
        self.add(f"{path}: {problem}" if path else problem)
        return False

    def __enter__(self) -> "Mistakes":
        return self

    def __exit__(self, error_type: type[BaseException] | None, *others: object) -> None:
        if error_type is None:
            refuse(self._problems, self._where)


def refuse(problems: Sequence[str], where: str = "dataset") -> None:
    """Raises DataError where there are problems: a line for each of the first, and how many more there are."""
    if problems:
        more = [f"and {len(problems) - _SHOWN} more"] if len(problems) > _SHOWN else []
        lines = [*problems[:_SHOWN], *more]
        raise DataError("\n".join(f"{where}{'' if line.startswith('[') else ': '}{line}" for line in lines))


def graded(path: str, judged: Any, mistakes: Mistakes) -> Iterator[tuple[str, int]]:
    """Document ids and grades of one query; those of a list are relevant. What is neither goes to `mistakes`."""
    wanted = f"{path}: must be grades by document id, or a list of document ids, not"
    if isinstance(judged, str) or not isinstance(judged, Iterable):
        mistakes.add(f"{wanted} {judged!r:.60}")
    elif not isinstance(judged, Mapping) and hasattr(judged, "to_dict"):
        mistakes.add(f"{wanted} {type(judged).__name__}; its to_dict() makes grades")
    else:
        pairs = judged.items() if isinstance(judged, Mapping) else ((doc_id, 1) for doc_id in judged)
        grades = dict[str, int]()
        for doc_id, grade in pairs:
            if not mistakes.takes_id(path, doc_id):
                continue
            if isinstance(grade, bool) or not isinstance(grade, Integral):
                mistakes.add(f"{path}[{doc_id!r}]: a grade is a whole number, not {grade!r:.60}")
            elif not -_LARGEST <= grade <= _LARGEST:
                mistakes.add(f"{path}[{doc_id!r}]: a grade has at most {GRADE_DIGITS} digits")
            else:
                grades[doc_id] = int(grade)
        yield from grades.items()
