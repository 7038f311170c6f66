"""Stage `mine`: negatives selected from runs, known positives and copies of them left out."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from hardneg.data.answer_filter import first_with_answer, without_answers, without_drawn_answers
from hardneg.data.answer_matching import PassageAnswers
from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import candidates
from hardneg.data.negatives import write_negatives
from hardneg.data.qrels import positives
from hardneg.data.rejected import recorded
from hardneg.data.runs import lists_in_order
from hardneg.errors import DataError
from hardneg.layout import DROPPED, NEGATIVES, RUN
from hardneg.miners.pseudo_labels import QueryLists
from hardneg.stages.context import StageContext
from hardneg.stages.opening import open_collection, open_queries
from hardneg.types import Candidates, Negatives

_QUERIES = 256


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Streams candidates through the miner; facts: queries, negatives, and what was dropped for which reason.

    Beside the negatives stands what was dropped, candidate by candidate, from a miner that tells it.
    """
    collection = open_collection(work.inputs["dataset"])
    runs = {label: source.folder / RUN for label, source in work.inputs_of("runs").items()}
    facts, dropped = Counter[str](), Counter[str]()
    known = positives(collection.all_qrels())
    query_ids = open_queries(work, collection).query_ids
    answers = _answers(work, collection)
    listed = _listed(work, query_ids, runs)
    if work.spec.pseudo_positives:
        listed = _labelled(listed, known, answers, work.spec.pseudo_positives, facts)
    offered = _candidates(listed, known, collection, facts)
    if work.spec.without_answers:
        offered = without_answers(offered, answers, dropped)
    mined = work.plugins["miner"].mine(offered, seed=work.spec.seed)
    if work.spec.without_answers:
        mined = without_drawn_answers(mined, answers)
        facts["queries without answers"] = len(query_ids) - len(answers.query_ids)
    write_negatives(work.folder / NEGATIVES, _counted(recorded(mined, work.folder / DROPPED), facts))
    if not facts["queries"]:
        why = "was mined; the miner left them all out"
        if facts["queries without positives"] == len(query_ids):
            why = "has a positive, a judgement above zero of a document in the corpus"
        raise DataError(f"{work.name}: none of the {len(query_ids)} queries of split {work.spec.split} {why}")
    for reason, count in dropped.items():
        facts[f"dropped as {reason}"] += count
    return {**facts, **answers.left_out}


def _answers(work: StageContext[Any], collection: StoredCollection) -> PassageAnswers:
    if work.spec.without_answers or work.spec.pseudo_positives:
        return PassageAnswers.of(collection, work.spec.split, work.spec.answer_match)
    return PassageAnswers(collection.corpus, {})


def _counted(mined: Iterator[Negatives], facts: Counter[str]) -> Iterator[Negatives]:
    for item in mined:
        facts["queries"] += 1
        facts["negatives"] += len(item.negatives)
        facts["queries without negatives"] += not item.negatives
        for reason, count in item.dropped.items():
            facts[f"dropped as {reason}"] += count
        for note in item.noted:
            facts[f"queries with {note}"] += 1
        yield item


def _listed(work: StageContext[Any], query_ids: Sequence[str], runs: Mapping[str, Path]) -> Iterator[QueryLists]:
    streams = [lists_in_order(path, query_ids) for path in runs.values()]
    with work.progress.task("mining", len(query_ids), "queries") as task:
        for query_id, *lists in zip(query_ids, *streams, strict=True):
            yield query_id, dict(zip(runs, lists, strict=True))
            task.advance()


def _labelled(
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


def _candidates(
    listed: Iterator[QueryLists], known: Mapping[str, Sequence[str]], collection: StoredCollection, facts: Counter[str]
) -> Iterator[Candidates]:
    for query_id, hits in listed:
        if query_id in known:
            yield candidates(collection.corpus, query_id, known[query_id], hits)
        else:
            facts["queries without positives"] += 1
