"""Lists of dev queries with positives planted among them as if nobody had labelled them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import AnalysisInputs, DataError, RankedList, derive_seed, half

JUDGED, HALVES = "judged", "halves"
_HALF = "\0half"
_QUERIES = 1024


@dataclass(frozen=True, eq=False)
class PlantedLists:
    """The lists of Q queries, C deep, and what of them is planted.

    choice: `judged`, of several known positives all but one are planted; `halves`, one half of a known positive is.
    scores: float32 [Q, C], nan behind a list's end. positive: float32 [Q], the lowest score of the known positives, nan
    where none has one. candidate: bool [Q, C], neither a known positive nor a copy of one. hidden: bool [Q, C],
    planted. planted: int64 [Q], how many were planted, listed or not.
    """

    choice: str
    scores: NDArray[np.float32]
    positive: NDArray[np.float32]
    candidate: NDArray[np.bool_]
    hidden: NDArray[np.bool_]
    planted: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class PlantedQuery:
    """One query's list, whole, with what is known and what is planted; copies: documents equal to a known positive."""

    ranking: RankedList
    known: Sequence[str]
    hidden: frozenset[str]
    copies: frozenset[str] = frozenset()


def percent(share: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return "–" if share is None else f"{share:.1%}"


def scores_of(doc_ids: Sequence[str], ranked: RankedList) -> NDArray[np.float32]:
    """The documents' scores in a list: float32 [n], nan for those that it lacks."""
    known = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
    return np.array([known.get(doc_id, np.nan) for doc_id in doc_ids], np.float32)


def known_positives(inputs: AnalysisInputs, split: str) -> dict[str, list[str]]:
    """Those of each query of a split that are in the corpus, as far as that can be told."""
    known = inputs.relevant()
    query_ids = [query_id for query_id in inputs.query_ids("run", split) if query_id in known]
    there = frozenset(inputs.copies([doc_id for query_id in query_ids for doc_id in known[query_id]]))
    kept = {query_id: [doc_id for doc_id in known[query_id] if doc_id in there] for query_id in query_ids}
    return {query_id: doc_ids for query_id, doc_ids in kept.items() if doc_ids}


def known_one(query_id: str, positives: Sequence[str], seed: int) -> str:
    """The positive that stays known, drawn from the seed and the ids alone."""
    return min(positives, key=lambda doc_id: (derive_seed(seed, "planted", query_id, doc_id), doc_id))


def judged(inputs: AnalysisInputs, split: str, positives: Mapping[str, Sequence[str]]) -> Iterator[PlantedQuery]:
    """Queries with several positives, of which one stays known; copies of the others are planted too."""
    for query_id, ranking in _lists(inputs, split, positives):
        one = known_one(query_id, positives[query_id], inputs.seed)
        copies = frozenset(inputs.copies([one])) - {one}
        others = [doc_id for doc_id in positives[query_id] if doc_id != one and doc_id not in copies]
        if others:
            yield PlantedQuery(ranking, [one], frozenset(inputs.copies(others)), copies)


def halves(inputs: AnalysisInputs, split: str, positives: Mapping[str, Sequence[str]]) -> Iterator[PlantedQuery]:
    """Queries with positives, all of them known, and one half of one of them in the list where its score puts it.

    Raises:
        DataError: texts are not known, or the model encodes no documents here.
    """
    texts, system = inputs.queries(split), inputs.system("index", "model")
    if system.encode_documents is None:
        raise DataError(f"{inputs.location('model')}: has no vectors of documents, so that no halves can be planted")
    lists = _lists(inputs, split, positives)
    while some := list(islice(lists, _QUERIES)):
        ones = [known_one(query_id, positives[query_id], inputs.seed) for query_id, _ in some]
        wholes = inputs.texts(ones)
        if not (texts.keys() >= {query_id for query_id, _ in some} and wholes.keys() >= set(ones)):
            message = "halves of positives are planted by texts, and some are not known"
            raise DataError(f"{inputs.location('run')}: {message}: give those of all queries and documents")
        parts = [half(wholes[one], derive_seed(inputs.seed, "half", one) % 2) for one in ones]
        queries = system.encode([texts[query_id] for query_id, _ in some])
        scores = np.einsum("qd,qd->q", queries, system.encode_documents(parts))
        for (query_id, ranking), score in zip(some, scores.tolist(), strict=True):
            known = positives[query_id]
            copies = frozenset(inputs.copies(known)).difference(known)
            yield PlantedQuery(with_document(ranking, _HALF, score), known, frozenset([_HALF]), copies)


def with_document(ranking: RankedList, doc_id: str, score: float) -> RankedList:
    """The list with one more document where its score puts it, behind those of the same score."""
    position = int(np.searchsorted(-ranking.scores, -score, "right"))
    doc_ids = [*ranking.doc_ids[:position], doc_id, *ranking.doc_ids[position:]]
    return RankedList(doc_ids, np.insert(ranking.scores, position, score).astype(np.float32))


def _lists(inputs: AnalysisInputs, split: str, known: Collection[str]) -> Iterator[tuple[str, RankedList]]:
    """Of the queries of a split those that are asked for, with their lists."""
    query_ids = inputs.query_ids("run", split)
    listed = zip(query_ids, inputs.lists("run", query_ids), strict=True)
    return ((query_id, ranking) for query_id, ranking in listed if query_id in known)


def planted_lists(choice: str, queries: Iterable[PlantedQuery], depth: int) -> PlantedLists:
    """The first `depth` documents of each list side by side."""
    rows = []
    for query in queries:
        doc_ids, aside = query.ranking.doc_ids[:depth], query.copies.union(query.known)
        beyond = (0, depth - len(doc_ids))
        rows.append(
            (
                np.pad(query.ranking.scores[:depth], beyond, constant_values=np.nan),
                np.fmin.reduce(scores_of(query.known, query.ranking)),
                np.pad([doc_id not in aside for doc_id in doc_ids], beyond),
                np.pad([doc_id in query.hidden for doc_id in doc_ids], beyond),
                len(query.hidden),
            )
        )
    scores, positive, candidate, hidden, planted = zip(*rows, strict=True) if rows else ((),) * 5
    shape = (len(rows), depth)
    return PlantedLists(
        choice,
        np.array(scores, np.float32).reshape(shape),
        np.array(positive, np.float32),
        np.array(candidate, np.bool_).reshape(shape),
        np.array(hidden, np.bool_).reshape(shape),
        np.array(planted, np.int64),
    )
