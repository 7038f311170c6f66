"""One query with its positives and negatives side by side, their ranks in each run, and the drops."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import NamedTuple

from hardneg.doors.browse.browsed import Browsed
from hardneg.doors.browse.suspicion import Evidence, Shingles, Standing, SuspectedNegative, shingles, standings
from hardneg.doors.browse.texts import OPENED, CutText, beginning, clean, cut, terms
from hardneg.records.types import Document, Negatives, RankedList

WHY = {
    "positive": "a known positive",
    "duplicate": "the same text as a positive",
    "repeated": "listed before",
    "score": "its score was too high",
    "unscored": "no score to filter by",
    "no scored positive": "no positive has a score to compare with",
    "answer": "it has an answer to the query",
}
"""Reasons of the built-in miners, in words."""


class ShownDocument(NamedTuple):
    """A document on the page. standings: its rank in each run, None where that lacks it. marked: by a reader."""

    doc_id: str
    title: str
    text: CutText
    standings: tuple[Standing | None, ...]
    mined_score: float | None
    suspected: SuspectedNegative | None
    marked: bool


class LeftOut(NamedTuple):
    """A candidate that the miner dropped; score: the deciding one, None where there is none."""

    doc_id: str
    rank: int
    why: str
    score: float | None
    text: str


@dataclass(frozen=True)
class QueryPage:
    """The page of one query. candidates: how many candidates the miner had; None where that is not known."""

    query_id: str
    text: str
    list_label: str
    systems: Sequence[str]
    positives: Sequence[ShownDocument]
    negatives: Sequence[ShownDocument]
    left_out: Sequence[LeftOut]
    candidates: int | None
    mined: bool


def query_page(browsed: Browsed, query_id: str, label: str, marks: Collection[str] = ()) -> QueryPage:
    """The page of one query; `label`: of the negatives. marks: the documents that a reader marked for it."""
    mined = browsed.negatives(label, query_id)
    positive, negative = browsed.positives_of(query_id, label), list(mined.negatives) if mined else []
    left = _left_out(mined)
    ids = [*positive, *negative]
    documents = browsed.documents(list(dict.fromkeys([*ids, *(item.doc_id for item in left)])))
    text = browsed.text(query_id)
    shown = _Showing(browsed, query_id, terms(text), documents, ids, frozenset(marks))
    evidence = QueryEvidence.of(browsed, query_id, {doc_id: documents[doc_id] for doc_id in ids if doc_id in documents})
    suspects = {item.doc_id: item for item in evidence.suspected(positive, negative)}
    scores = mined.scores.tolist() if mined else []
    return QueryPage(
        query_id,
        clean(text[:OPENED]),
        label,
        list(browsed.runs),
        [shown.document(doc_id, None, None) for doc_id in positive],
        [shown.document(doc_id, suspects[doc_id], score) for doc_id, score in zip(negative, scores, strict=True)],
        [
            item._replace(text=beginning(documents[item.doc_id].contents, 200) if item.doc_id in documents else "")
            for item in left
        ],
        mined.drops.candidates if mined and mined.drops else None,
        mined is not None,
    )


@dataclass(frozen=True)
class QueryEvidence:
    """The evidence on one query's documents, for all lists: shingles by id, and ranked lists."""

    query_id: str
    known: Mapping[str, Shingles]
    lists: Mapping[str, RankedList]
    judges: Collection[str]

    @classmethod
    def of(cls, browsed: Browsed, query_id: str, documents: Mapping[str, Document]) -> "QueryEvidence":
        """Gather the evidence on these documents, by id."""
        known = {doc_id: shingles(item.contents) for doc_id, item in documents.items()}
        lists = {label: run.ranked(query_id) for label, run in browsed.runs.items()}
        return cls(query_id, known, lists, browsed.sources.judges)

    def suspected(self, positive: Sequence[str], negative: Sequence[str]) -> list[SuspectedNegative]:
        """Each of some negatives, with how suspicious it is beside the positives."""
        return Evidence(self.query_id, self._of(positive), self._of(negative), self.lists, self.judges).suspected()

    def _of(self, doc_ids: Sequence[str]) -> dict[str, Shingles]:
        return {doc_id: self.known.get(doc_id, frozenset()) for doc_id in doc_ids}


class _Showing:
    """What the documents of one page share."""

    def __init__(
        self,
        browsed: Browsed,
        query_id: str,
        wanted: Collection[str],
        documents: Mapping[str, Document],
        doc_ids: Sequence[str],
        marks: frozenset[str],
    ) -> None:
        self._wanted, self._documents, self._marks = wanted, documents, marks
        self._standings = [standings(run.ranked(query_id), doc_ids) for run in browsed.runs.values()]

    def document(self, doc_id: str, suspected: SuspectedNegative | None, score: float | None) -> ShownDocument:
        stored = self._documents.get(doc_id)
        return ShownDocument(
            doc_id,
            clean(stored.title[:1000]) if stored else "",
            cut(stored.text if stored else "", self._wanted),
            tuple(known.get(doc_id) for known in self._standings),
            None if score is None or isnan(score) else score,
            suspected if suspected and suspected.score else None,
            doc_id in self._marks,
        )


def _left_out(mined: Negatives | None) -> list[LeftOut]:
    drops = mined.drops if mined else None
    if drops is None:
        return []
    rows = zip(drops.doc_ids, drops.ranks.tolist(), drops.reasons, drops.scores.tolist(), strict=True)
    return [
        LeftOut(doc_id, rank, WHY.get(reason, reason), None if isnan(score) else score, "")
        for doc_id, rank, reason, score in rows
    ]


@dataclass(frozen=True)
class RankMove:
    """A document in two lists: its rank in each, counted from 1; None where the list lacks it."""

    doc_id: str
    before: int | None
    after: int | None

    @property
    def change(self) -> str:
        """The change in words."""
        if self.before is None:
            return "entered"
        if self.after is None:
            return "left"
        climbed = self.before - self.after
        return "stayed" if not climbed else f"up {climbed}" if climbed > 0 else f"down {-climbed}"


def moves(before: Sequence[str], after: Sequence[str]) -> list[RankMove]:
    """The moves of all documents, in the order of the second list; then those that left, in the first one's order."""
    old = {doc_id: rank for rank, doc_id in enumerate(before, 1)}
    new = {doc_id: rank for rank, doc_id in enumerate(after, 1)}
    there = [RankMove(doc_id, old.get(doc_id), rank) for doc_id, rank in new.items()]
    return there + [RankMove(doc_id, rank, None) for doc_id, rank in old.items() if doc_id not in new]


def tally(rank_moves: Sequence[RankMove]) -> dict[str, int]:
    """How many `entered`, `left`, `moved` and `stayed`."""
    words = [move.change.split()[0] for move in rank_moves]
    counts = {word: words.count(word) for word in ("entered", "left", "stayed")}
    return {**counts, "moved": len(words) - sum(counts.values())}
