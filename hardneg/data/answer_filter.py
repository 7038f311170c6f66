"""Negatives that have no answer to their question, and the passage that stands in for one that nobody labelled."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from hardneg.data.answer_matching import PassageAnswers
from hardneg.types import Candidates, Negatives, RankedList

REASON = "answer"
_QUERIES = 256


def without_answers(
    candidates: Iterable[Candidates], answers: PassageAnswers, dropped: Counter[str]
) -> Iterator[Candidates]:
    """The same candidates in the same order, without the documents of their lists that have an answer.

    Known positives stay where they are: miners leave them out themselves. `dropped` counts the rest under `REASON`.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 3.2.
    """
    waiting = iter(candidates)
    while block := list(islice(waiting, _QUERIES)):
        names = dict.fromkeys(name for query in block for name in query.hits)
        cleared = {name: _cleared([query for query in block if name in query.hits], name, answers) for name in names}
        for query in block:
            hits = {name: next(cleared[name]) for name in query.hits}
            dropped[REASON] += sum(len(query.hits[name].doc_ids) - len(hits[name].doc_ids) for name in hits)
            yield replace(query, hits=hits)


def without_drawn_answers(mined: Iterable[Negatives], answers: PassageAnswers) -> Iterator[Negatives]:
    """The same negatives, without those from elsewhere than a list (their score is nan) that have an answer."""
    waiting = iter(mined)
    while block := list(islice(waiting, _QUERIES)):
        drawn = [[i if s != s else "" for i, s in zip(q.negatives, q.scores.tolist(), strict=True)] for q in block]
        found = answers.in_lists([query.query_id for query in block], drawn)
        for query, row in zip(block, found, strict=True):
            bad = row[: len(query.negatives)]
            if not bad.any():
                yield query
                continue
            kept = [doc_id for doc_id, has in zip(query.negatives, bad.tolist(), strict=True) if not has]
            reasons = Counter(query.dropped)
            reasons[REASON] += int(bad.sum())
            drops = query.drops and replace(query.drops, chosen=query.drops.chosen[~bad])
            yield replace(query, negatives=kept, scores=query.scores[~bad], dropped=dict(reasons), drops=drops)


def first_with_answer(
    query_ids: Sequence[str], lists: Sequence[Sequence[str]], answers: PassageAnswers
) -> dict[str, str]:
    """The first document of each list that has an answer, by query id; questions without one are left out."""
    found = answers.in_lists(query_ids, lists)
    return {
        query_id: doc_ids[int(row.argmax())]
        for query_id, doc_ids, row in zip(query_ids, lists, found, strict=True)
        if row.any()
    }


def _cleared(queries: Sequence[Candidates], name: str, answers: PassageAnswers) -> Iterator[RankedList]:
    """The lists of one run, without documents that have an answer and are no known positives."""
    lists = [query.hits[name] for query in queries]
    found = answers.in_lists([query.query_id for query in queries], [ranked.doc_ids for ranked in lists])
    for query, ranked, row in zip(queries, lists, found, strict=True):
        known = frozenset(query.positives)
        kept = [i for i, doc_id in enumerate(ranked.doc_ids) if not row[i] or doc_id in known]
        yield RankedList([ranked.doc_ids[i] for i in kept], ranked.scores[kept])
