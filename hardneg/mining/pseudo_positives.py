"""Positives for queries that have none: the first listed document that has an answer."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice

from hardneg.formats.answer_matching import PassageAnswers, first_with_answer
from hardneg.formats.runs import QueryLists

_QUERIES = 256


def labelled(
    listed: Iterator[QueryLists], known: dict[str, list[str]], answers: PassageAnswers, depth: int, facts: Counter[str]
) -> Iterator[QueryLists]:
    """Gives a query without positives the first of the first run's top that has an answer, before it goes by."""
    while block := list(islice(listed, _QUERIES)):
        unknown = {query_id: next(iter(hits.values())) for query_id, hits in block if query_id not in known}
        tops = [ranked.doc_ids[:depth] for ranked in unknown.values()]
        for query_id, doc_id in first_with_answer(list(unknown), tops, answers).items():
            known[query_id] = [doc_id]
            facts["pseudo-positives"] += 1
        yield from block
