"""Judgements as a function is given them: a file, or grades by document id by query id."""

import os
from collections.abc import Mapping
from pathlib import Path

from hardneg.api.arguments import AnyQrels
from hardneg.api.memory_collection import Mistakes, graded
from hardneg.formats.qrels import Qrels
from hardneg.records.errors import UsageError


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
