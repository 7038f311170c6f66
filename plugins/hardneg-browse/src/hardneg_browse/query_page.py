"""One query on a page: texts cut and marked, suspicion with its reasons, ranks in each run, and the drops."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from hardneg.plugin import Document, RankedList, word_terms
from hardneg_browse.browsed import Browsed

SHOWN = 700
"""Characters of a text that are shown at once."""
OPENED = 20_000
"""Characters of a text on a page; the page shows the full length."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Unicode controls of writing direction; a text's own letters give its direction."""
_COMMON_WORDS = """
a about after all also an and any are as at be because been but by can could did do does for from had has have he her
his how i if in into is it its more most my no not of on one or other our she so some such than that the their them
then there these they this to was we were what when where which who why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class CutText(NamedTuple):
    """A text on a page: its beginning, the rest below it, and the length of the whole (characters)."""

    start: Markup
    rest: Markup
    length: int
    cut: bool


def clean(text: str) -> str:
    """The text without orders to turn its direction; each control character but tab and newline as U+FFFD."""
    return _CONTROLS.sub("\ufffd", _DIRECTIONS.sub("", text))


def content_words(text: str) -> frozenset[str]:
    """The words of a text, case aside, without those that most texts have; numbers are words."""
    return frozenset(word_terms.terms(text[:OPENED])).difference(_COMMON)


def marked(text: str, wanted: Collection[str]) -> Markup:
    """The text escaped, with every word that is wanted in a `mark`."""
    pieces, end = [], 0
    for start, stop in word_terms.term_spans(text):
        if text[start:stop].casefold() in wanted:
            start = max(start, end)
            pieces += [escape(text[end:start]), Markup("<mark>%s</mark>") % text[start:stop]]
            end = stop
    return Markup("").join([*pieces, escape(text[end:])])


def beginning(text: str, most: int = 300) -> str:
    """The start of a text on one line, cut after a word."""
    line = " ".join(clean(text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1].rsplit(" ", 1)[0] + "…"


def cut(text: str, wanted: Collection[str]) -> CutText:
    """A text, cut after a word where it is long."""
    shown = clean(text[:OPENED])
    if len(shown) <= SHOWN:
        return CutText(marked(shown, wanted), Markup(""), len(text), len(text) > OPENED)
    middle = shown.rfind(" ", SHOWN - 80, SHOWN) + 1 or SHOWN
    return CutText(marked(shown[:middle], wanted), marked(shown[middle:], wanted), len(text), len(text) > OPENED)


SHINGLE = 3
"""Words in a row that make one shingle."""
_CHARACTERS = 20_000
_COPY = 0.3
"""The resemblance above which two texts are near copies."""

Shingles = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class SuspectedNegative:
    """A negative of a query. score: between 0 and 2, 0 where nothing speaks against it; reasons: in words.

    alike: the positive that it is a near copy of; empty: none.
    """

    query_id: str
    doc_id: str
    score: float
    reasons: tuple[str, ...]
    alike: str = ""


class Standing(NamedTuple):
    """A rank in a list, counted from 1, and the score there."""

    rank: int
    score: float


def standings(ranked: RankedList, doc_ids: Collection[str]) -> dict[str, Standing]:
    """The rank and score of some documents in a list; those that it lacks are left out."""
    wanted = set(doc_ids)
    listed = zip(ranked.doc_ids, ranked.scores.tolist(), strict=True)
    return {doc_id: Standing(rank, score) for rank, (doc_id, score) in enumerate(listed, 1) if doc_id in wanted}


def shingles(text: str) -> Shingles:
    """All runs of three words of a text, case aside; of a shorter one its words together."""
    words = word_terms.terms(text[:_CHARACTERS])
    if len(words) < SHINGLE:
        return frozenset([tuple(words)] if words else [])
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def resemblance(first: Shingles, second: Shingles) -> float:
    """The part of all shingles of two texts that both have, between 0 and 1; 0 where there is none.

    Source: Broder, On the resemblance and containment of documents (SEQUENCES 1997), section 2, with w = 3.
    """
    together = len(first | second)
    return len(first & second) / together if together else 0.0


def above(negative: Standing | None, positive: Standing | None, listed: int) -> float:
    """How far a list has a negative above the best positive: 1 - rank of the negative / rank of the positive.

    0 where it stands below. A positive that is not in a list of `listed` documents counts as standing behind it.
    """
    if negative is None:
        return 0.0
    return max(0.0, 1 - negative.rank / (positive.rank if positive else listed + 1))


@dataclass(frozen=True)
class Evidence:
    """The evidence on a query's documents. known: the shingles of the texts by id. lists: ranked ones by system."""

    query_id: str
    known: Mapping[str, Shingles]
    lists: Mapping[str, RankedList]

    @classmethod
    def of(cls, browsed: Browsed, query_id: str, documents: Mapping[str, Document]) -> "Evidence":
        """Gather the evidence on these documents, by id."""
        known = {doc_id: shingles(item.contents) for doc_id, item in documents.items()}
        lists = {label: run.ranked(query_id) for label, run in browsed.runs.items()}
        return cls(query_id, known, lists)

    def suspected(self, positive: Sequence[str], negative: Sequence[str]) -> list[SuspectedNegative]:
        """Each of some negatives with its score beside the positives: copy + agreed.

        copy: its highest resemblance to a positive, from 0.3 on. agreed: the mean of `above` over the runs.
        """
        by_list = {label: standings(ranked, [*positive, *negative]) for label, ranked in self.lists.items()}
        best = {
            label: min((ranks[doc_id] for doc_id in positive if doc_id in ranks), default=None)
            for label, ranks in by_list.items()
        }
        return [self._of(doc_id, positive, by_list, best) for doc_id in dict.fromkeys(negative)]

    def _of(
        self,
        doc_id: str,
        positives: Sequence[str],
        by_list: Mapping[str, Mapping[str, Standing]],
        best: Mapping[str, Standing | None],
    ) -> SuspectedNegative:
        own, none, reasons = self.known.get(doc_id, frozenset()), frozenset[tuple[str, ...]](), []
        found = ((resemblance(own, self.known.get(name, none)), name) for name in dict.fromkeys(positives))
        score, alike = max(found, default=(0.0, ""))
        if score < _COPY:
            score, alike = 0.0, ""
        else:
            reasons.append(f"shares {100 * score:.0f} % of its word triples with positive {alike}")
        for label, ranks in by_list.items():
            positive = best[label]
            if height := above(ranks.get(doc_id), positive, len(self.lists[label].doc_ids)):
                score += height / len(by_list)
                where = f"which it has at {positive.rank}" if positive else "which it does not have"
                reasons.append(f"{label} ranks it at {ranks[doc_id].rank}, above the best positive, {where}")
        return SuspectedNegative(self.query_id, doc_id, score, tuple(reasons), alike)


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
    systems: Sequence[str]
    positives: Sequence[ShownDocument]
    negatives: Sequence[ShownDocument]
    left_out: Sequence[LeftOut]
    candidates: int | None
    mined: bool


def query_page(browsed: Browsed, query_id: str, label: str, marks: Collection[str] = ()) -> QueryPage:
    """The page of one query; `label`: of the negatives. marks: the documents that a reader marked for it."""
    mined = browsed.lists[label].negatives(query_id)
    positive, negative = browsed.positives_of(query_id, label), list(mined.negatives) if mined else []
    drops, ids, text = mined.drops if mined else None, [*positive, *negative], browsed.text(query_id)
    documents = browsed.documents(list(dict.fromkeys([*ids, *(drops.doc_ids if drops else ())])))
    evidence = Evidence.of(browsed, query_id, {doc_id: documents[doc_id] for doc_id in ids if doc_id in documents})
    suspects = {item.doc_id: item for item in evidence.suspected(positive, negative)}
    wanted, ranks = content_words(text), [standings(ranked, ids) for ranked in evidence.lists.values()]

    def shown(doc_id: str, suspected: SuspectedNegative | None, score: float) -> ShownDocument:
        stored = documents.get(doc_id)
        return ShownDocument(
            doc_id,
            clean(stored.title[:1000]) if stored else "",
            cut(stored.text if stored else "", wanted),
            tuple(known.get(doc_id) for known in ranks),
            None if isnan(score) else score,
            suspected if suspected and suspected.score else None,
            doc_id in marks,
        )

    def dropped(doc_id: str, rank: int, reason: str, score: float) -> LeftOut:
        start = beginning(documents[doc_id].contents, 200) if doc_id in documents else ""
        return LeftOut(doc_id, rank, WHY.get(reason, reason), None if isnan(score) else score, start)

    left: Sequence[Any] = (
        list(zip(drops.doc_ids, drops.ranks.tolist(), drops.reasons, drops.scores.tolist(), strict=True))
        if drops
        else ()
    )
    scores = mined.scores.tolist() if mined else []
    return QueryPage(
        query_id,
        clean(text[:OPENED]),
        list(browsed.runs),
        [shown(doc_id, None, nan) for doc_id in positive],
        [shown(doc_id, suspects[doc_id], score) for doc_id, score in zip(negative, scores, strict=True)],
        [dropped(*row) for row in left],
        drops.candidates if drops else None,
        mined is not None,
    )
