"""Positives from files of judgements, beside those of the collection."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import Qrels, iter_qrels, positives
from hardneg.records.errors import DataError
from hardneg.records.types import Judgement
from hardneg.records.wording import counted

_SHOWN = 10


def extended(
    known: Mapping[str, Sequence[str]], files: Sequence[Path], collection: StoredCollection
) -> dict[str, list[str]]:
    """The positives of each query: the known ones, then those of the files, each once.

    Args:
        known: by query id.
        files: judgements in TREC's or BEIR's form. A relevance of zero or less takes nothing away.
        collection: what has the queries and the documents.

    Raises:
        DataError: a file has a mistake, or judges a query or a document that the collection lacks; up to ten of the
            lines in one message.
    """
    queries = {query_id for split in collection.splits for query_id in collection.queries(split).query_ids}
    more: Qrels = {}
    for path in files:
        judged = list(iter_qrels(path))
        if not judged:
            raise DataError(f"{path}: holds no judgements; leave it out")
        if problems := list(_problems(judged, queries, collection)):
            more_lines = f"; and {counted(len(problems) - _SHOWN, 'more line')}" if len(problems) > _SHOWN else ""
            raise DataError(
                f"{path}: judges what the dataset does not have: {'; '.join(problems[:_SHOWN])}{more_lines}"
            )
        for _, (query_id, doc_id, relevance) in judged:
            grades = more.setdefault(query_id, {})
            grades[doc_id] = max(relevance, grades.get(doc_id, relevance))
    added = positives(more)
    return {name: list(dict.fromkeys((*known.get(name, ()), *added.get(name, ())))) for name in {**known, **added}}


def _problems(
    judged: Sequence[tuple[int, Judgement]], queries: set[str], collection: StoredCollection
) -> Iterator[str]:
    rows = collection.corpus.rows([item.doc_id for _, item in judged])
    for (number, item), row in zip(judged, rows.tolist(), strict=True):
        if item.query_id not in queries:
            yield f"line {number}, query {item.query_id!r}"
        elif row < 0:
            yield f"line {number}, document {item.doc_id!r}"
