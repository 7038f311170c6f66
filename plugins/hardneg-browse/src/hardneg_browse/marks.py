"""Documents that a reader marked as relevant: qrels in TREC's format, which the next mining takes as positives."""

import fcntl
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hardneg.plugin import Judgement, errors, qrels_files


class Marks:
    """The judgements in one file, written whole each time; other programs may add to it meanwhile.

    Raises:
        DataError: the file holds something else. UsageError: it is a dataset's, in BEIR's form.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._alone = threading.Lock()
        self._known = _read(path)
        if self._known and _is_of_beir(path):
            raise errors.UsageError(
                f"{path}: judgements in BEIR's form, which marks would rewrite in TREC's: name another file"
            )

    def of(self, query_id: str) -> frozenset[str]:
        """The documents that are marked for a query."""
        return frozenset(doc_id for doc_id, relevance in self._known.get(query_id, {}).items() if relevance > 0)

    def all(self) -> list[tuple[str, str]]:
        """(query id, document id) of all marks, in the file's order."""
        return [
            (query_id, doc_id)
            for query_id, judged in list(self._known.items())
            for doc_id, relevance in list(judged.items())
            if relevance > 0
        ]

    def set(self, query_id: str, doc_id: str, relevant: bool) -> None:
        """Marks a document as relevant, or takes the mark away, and writes the file.

        Raises:
            DataError: the file has been changed into something that is no judgements.
        """
        with self._held():
            known = _read(self.path)
            judged = known.setdefault(query_id, {})
            if relevant:
                judged[doc_id] = max(1, judged.get(doc_id, 1))
            else:
                judged.pop(doc_id, None)
            rows = (Judgement(name, doc, value) for name, grades in known.items() for doc, value in grades.items())
            qrels_files.write_qrels(self.path, rows)
            self._known = known

    @contextmanager
    def _held(self) -> Iterator[None]:
        """One writer at a time, of this process and of others that mark in the same file."""
        with self._alone:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.path.with_name(f".{self.path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)


def _read(path: Path) -> dict[str, dict[str, int]]:
    return qrels_files.read_qrels(path) if path.exists() and path.stat().st_size else {}


def _is_of_beir(path: Path) -> bool:
    """Whether its lines have three columns, as BEIR's judgements do."""
    with path.open("rb") as file:
        return len(file.readline().split()) == 3
