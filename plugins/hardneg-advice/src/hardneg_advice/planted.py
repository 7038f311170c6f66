"""Lists of dev queries with positives planted among them as if nobody had labelled them."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from hardneg.plugin import (
    FILTER_RULES,
    AnalysisInputs,
    DataError,
    Name,
    Option,
    RankedList,
    Trait,
    derive_seed,
    half,
    wording,
)

ONE_VECTOR = dict.fromkeys(
    (Trait.TEXTS, Trait.SEGMENTS, Trait.WEIGHTS, Trait.TOKEN_VECTORS),
    "name one of an encoder with one vector a document",
)
JUDGED, HALVES = "judged", "halves"
OWN = ""
"""The label of the list's own scores."""

_HALF = "\0half"
_QUERIES = 1024


def _known_filters(thresholds: dict[str, tuple[float, ...]]) -> dict[str, tuple[float, ...]]:
    for name in thresholds:
        if name not in FILTER_RULES:
            raise ValueError(
                f"no filter {name!r}{wording.suggestion(name, FILTER_RULES)}; there are {', '.join(FILTER_RULES)}"
            )
    return thresholds


FilterThresholds = Annotated[
    dict[Name, Annotated[tuple[float, ...], Field(min_length=1)]],
    AfterValidator(_known_filters),
    Option("threshold", metavar="FILTER=VALUE"),
]
"""Thresholds to try, by the name of the filtering miner."""


@dataclass(frozen=True, eq=False)
class PlantedLists:
    """The lists of Q queries, C deep, and what of them is planted.

    choice: `judged`, of several known positives all but one are planted; `halves`, one half of a known positive is.
    scores: float32 [Q, C], the list's own, nan behind its end. positive: float32 [Q], the lowest own score of the
    known positives, nan where none has one. deciding, deciding_positive: the same by each other run's scores.
    candidate: bool [Q, C], neither a known positive nor a copy of one. hidden: bool [Q, C], planted. planted: int64
    [Q], how many were planted, listed or not.
    """

    choice: str
    scores: NDArray[np.float32]
    positive: NDArray[np.float32]
    deciding: Mapping[str, NDArray[np.float32]]
    deciding_positive: Mapping[str, NDArray[np.float32]]
    candidate: NDArray[np.bool_]
    hidden: NDArray[np.bool_]
    planted: NDArray[np.int64]

    def by(self, label: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The scores that decide, float32 [Q, C], and those of the positives, float32 [Q]."""
        return (self.scores, self.positive) if label == OWN else (self.deciding[label], self.deciding_positive[label])


@dataclass(frozen=True, slots=True)
class PlantedQuery:
    """One query's list, whole, with what is known and what is planted.

    copies: documents with the contents of a known positive. more: the lists of other runs, by label.
    """

    ranking: RankedList
    known: Sequence[str]
    hidden: frozenset[str]
    copies: frozenset[str] = frozenset()
    more: Mapping[str, RankedList] | None = None


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


def judged(
    inputs: AnalysisInputs, split: str, positives: Mapping[str, Sequence[str]], labels: Sequence[str]
) -> Iterator[PlantedQuery]:
    """Queries with several positives, of which one stays known; copies of the others are planted too."""
    for query_id, ranking, more in _lists(inputs, split, positives, labels):
        one = known_one(query_id, positives[query_id], inputs.seed)
        copies = frozenset(inputs.copies([one])) - {one}
        others = [doc_id for doc_id in positives[query_id] if doc_id != one and doc_id not in copies]
        if others:
            yield PlantedQuery(ranking, [one], frozenset(inputs.copies(others)), copies, more)


def halves(
    inputs: AnalysisInputs, split: str, positives: Mapping[str, Sequence[str]], paths: tuple[str, str]
) -> Iterator[PlantedQuery]:
    """Queries with positives, all of them known, and one half of one of them in the list where its score puts it.

    paths: those of the index and the model.

    Raises:
        DataError: texts are not known, or the model encodes no documents here.
    """
    texts, system = inputs.queries(split), inputs.system(*paths)
    if system.encode_documents is None:
        raise DataError(f"{inputs.location(paths[1])}: has no vectors of documents, so that no halves can be planted")
    lists = _lists(inputs, split, positives, ())
    while some := list(islice(lists, _QUERIES)):
        ones = [known_one(query_id, positives[query_id], inputs.seed) for query_id, _, _ in some]
        wholes = inputs.texts(ones)
        if not (texts.keys() >= {query_id for query_id, _, _ in some} and wholes.keys() >= set(ones)):
            message = "halves of positives are planted by texts, and some are not known"
            raise DataError(f"{inputs.location('run')}: {message}: give those of all queries and documents")
        parts = [half(wholes[one], derive_seed(inputs.seed, "half", one) % 2) for one in ones]
        queries = system.encode([texts[query_id] for query_id, _, _ in some])
        scores = np.einsum("qd,qd->q", queries, system.encode_documents(parts))
        for (query_id, ranking, _), score in zip(some, scores.tolist(), strict=True):
            known = positives[query_id]
            copies = frozenset(inputs.copies(known)).difference(known)
            yield PlantedQuery(with_document(ranking, _HALF, score), known, frozenset([_HALF]), copies)


def with_document(ranking: RankedList, doc_id: str, score: float) -> RankedList:
    """The list with one more document where its score puts it, behind those of the same score."""
    position = int(np.searchsorted(-ranking.scores, -score, "right"))
    doc_ids = [*ranking.doc_ids[:position], doc_id, *ranking.doc_ids[position:]]
    return RankedList(doc_ids, np.insert(ranking.scores, position, score).astype(np.float32))


def _lists(
    inputs: AnalysisInputs, split: str, known: Collection[str], labels: Sequence[str]
) -> Iterator[tuple[str, RankedList, dict[str, RankedList]]]:
    """Of the queries of a split those that are asked for, with their lists."""
    query_ids, wanted = inputs.query_ids("run", split), frozenset(known)
    more = [inputs.lists(f"scores.{label}", query_ids) for label in labels]
    for query_id, ranking, *others in zip(query_ids, inputs.lists("run", query_ids), *more, strict=True):
        if query_id in wanted:
            yield query_id, ranking, dict(zip(labels, others, strict=True))


def planted_lists(choice: str, queries: Iterable[PlantedQuery], depth: int, labels: Sequence[str] = ()) -> PlantedLists:
    """The first `depth` documents of each list side by side."""
    own: list[NDArray[np.float32]] = []
    candidate, hidden, planted = list[NDArray[np.bool_]](), list[NDArray[np.bool_]](), list[int]()
    positive, deciding = {label: list[float]() for label in (OWN, *labels)}, {label: list[Any]() for label in labels}
    for query in queries:
        doc_ids, aside = query.ranking.doc_ids[:depth], query.copies.union(query.known)
        more = query.more or {}
        own.append(_padded(query.ranking.scores[:depth], depth, np.nan))
        hidden.append(_padded([doc_id in query.hidden for doc_id in doc_ids], depth, False))
        candidate.append(_padded([doc_id not in aside for doc_id in doc_ids], depth, False))
        planted.append(len(query.hidden))
        for label in labels:
            deciding[label].append(_padded(scores_of(doc_ids, more[label]), depth, np.nan))
        for label, scored in positive.items():
            scored.append(float(np.fmin.reduce(scores_of(query.known, query.ranking if label == OWN else more[label]))))

    def table(rows: Sequence[Any], kind: type) -> NDArray[Any]:
        return np.array(rows, kind).reshape(len(rows), depth)

    lows = {label: np.array(scored, np.float32) for label, scored in positive.items()}
    return PlantedLists(
        choice,
        table(own, np.float32),
        lows.pop(OWN),
        {label: table(rows, np.float32) for label, rows in deciding.items()},
        lows,
        table(candidate, np.bool_),
        table(hidden, np.bool_),
        np.array(planted, np.int64),
    )


def _padded(values: Any, depth: int, fill: Any) -> NDArray[Any]:
    return np.pad(np.asarray(values), (0, depth - len(values)), constant_values=fill)
