"""Judgements as a function is given them: a file, or grades by document id by query id."""

import os
from collections.abc import Iterable, Mapping
from numbers import Integral
from pathlib import Path
from typing import Any

from hardneg.api.memory_collection import Mistakes, graded
from hardneg.data.qrels import Qrels
from hardneg.errors import UsageError

AnyQrels = str | Path | Mapping[str, Mapping[str, int] | Iterable[str]]
"""A file in TREC's or BEIR's form; or grades by document id, or a list of the relevant ones, by query id."""


def named_qrels(given: AnyQrels | None) -> Path | Qrels | None:
    """A file, or checked judgements.

    Raises:
        UsageError: it is neither.
        DataError: a grade is no whole number; all such are told, with their query.
    """
    if given is None:
        return None
    if isinstance(given, str | os.PathLike):
        return Path(os.fspath(given)).expanduser()
    if not isinstance(given, Mapping):
        raise UsageError(f"qrels: cannot read {given!r:.60}; give a file, or grades by document id by query id")
    with Mistakes("qrels") as mistakes:
        return {query_id: _checked(query_id, found, mistakes) for query_id, found in given.items()}


def _checked(query_id: str, found: Any, mistakes: Mistakes) -> dict[str, int]:
    place, judged = f"[{query_id!r}]", dict[str, int]()
    for doc_id, grade in graded(place, found, mistakes):
        if isinstance(grade, bool) or not isinstance(grade, Integral):
            mistakes.add(f"{place}[{doc_id!r}]: a grade is a whole number, not {grade!r:.60}")
        else:
            judged[doc_id] = int(grade)
    return judged
