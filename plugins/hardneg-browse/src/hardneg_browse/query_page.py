"""The content of a query's page, suspicion scores for its negatives, and a survey of all queries."""

import heapq
import re
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, nan
from typing import Any, NamedTuple

from markupsafe import Markup, escape

from hardneg.plugin import Document, RankedList, word_terms
from hardneg_browse.browsed import Browsed

SHOWN = 700
"""Number of characters of a text that are shown until the reader expands it."""
OPENED = 20_000
"""Maximum number of characters of a text on a page, which also shows the full length."""

_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""Unicode characters that control writing direction. They are removed, so only letters determine direction."""
_COMMON_WORDS = """
a about after all also an and any are as at be because been but by can could did do does for from had has have he her
his how i if in into is it its more most my no not of on one or other our she so some such than that the their them
then there these they this to was we were what when where which who why will with would you your
"""
_COMMON = frozenset(_COMMON_WORDS.split())


class CutText(NamedTuple):
    """A text for a page. start, rest: two parts, as HTML. length: of the full text. cut: whether its end is omitted."""

    start: Markup
    rest: Markup
    length: int
    cut: bool


def clean(text: str) -> str:
    """Return text without direction controls; other control characters, except tab and line endings, become U+FFFD."""
    return _CONTROLS.sub("\ufffd", _DIRECTIONS.sub("", text))


def content_words(text: str) -> frozenset[str]:
    """Return the case-folded words and numbers in the first `OPENED` characters of a text, without stop words."""
    return frozenset(word_terms.terms(text[:OPENED])).difference(_COMMON)


def marked(text: str, wanted: Collection[str]) -> Markup:
    """Return a text as HTML that highlights each word whose case-folded form is in `wanted`."""
    pieces, end = [], 0
    for start, stop in word_terms.term_spans(text):
        if text[start:stop].casefold() in wanted:
            start = max(start, end)
            pieces += [escape(text[end:start]), Markup("<mark>%s</mark>") % text[start:stop]]
            end = stop
    return Markup("").join([*pieces, escape(text[end:])])


def beginning(text: str, most: int = 300) -> str:
    """Return the start of a text on one line: at most `most` characters, with an ellipsis if the text is cut."""
    line = " ".join(clean(text[: 4 * most]).split())
    return line if len(line) <= most else line[: most - 1].rsplit(" ", 1)[0] + "…"


def cut(text: str, wanted: Collection[str]) -> CutText:
    """Highlight the words in `wanted`, and split a text of more than `SHOWN` characters between words."""
    shown = clean(text[:OPENED])
    if len(shown) <= SHOWN:
        return CutText(marked(shown, wanted), Markup(""), len(text), len(text) > OPENED)
    middle = shown.rfind(" ", SHOWN - 80, SHOWN) + 1 or SHOWN
    return CutText(marked(shown[:middle], wanted), marked(shown[middle:], wanted), len(text), len(text) > OPENED)


SHINGLE = 3
"""Number of words in a shingle."""
_CHARACTERS = 20_000
_COPY = 0.3
"""Minimum resemblance for two texts to count as near copies."""

Shingles = frozenset[tuple[str, ...]]


@dataclass(frozen=True)
class SuspectedNegative:
    """A negative with its suspicion score, from 0 (not suspicious) to 2, and the reasons in words.

    alike: id of the positive that it nearly copies, or empty.
    """

    query_id: str
    doc_id: str
    score: float
    reasons: tuple[str, ...]
    alike: str = ""


class Standing(NamedTuple):
    """A document's rank in a list, counted from 1, and its score there."""

    rank: int
    score: float


def standings(ranked: RankedList, doc_ids: Collection[str]) -> dict[str, Standing]:
    """Return the ranks and scores of documents in a ranked list, by id. Unlisted documents are omitted."""
    wanted = set(doc_ids)
    listed = zip(ranked.doc_ids, ranked.scores.tolist(), strict=True)
    return {doc_id: Standing(rank, score) for rank, (doc_id, score) in enumerate(listed, 1) if doc_id in wanted}


def shingles(text: str) -> Shingles:
    """Return all sequences of three case-folded words in a text's first 20,000 characters, or all words if fewer."""
    words = word_terms.terms(text[:_CHARACTERS])
    if len(words) < SHINGLE:
        return frozenset([tuple(words)] if words else [])
    return frozenset(zip(words, words[1:], words[2:], strict=False))


def resemblance(first: Shingles, second: Shingles) -> float:
    """Return the Jaccard similarity of two sets of shingles, between 0 and 1; 0 for two empty sets.

    Source: Broder, On the resemblance and containment of documents (SEQUENCES 1997), section 2, with w = 3.
    """
    together = len(first | second)
    return len(first & second) / together if together else 0.0


def above(negative: Standing | None, positive: Standing | None, listed: int) -> float:
    """Return 1 - rank of the negative / rank of the best positive, or 0 if the negative ranks below it or is unlisted.

    If no positive is listed, the best rank counts as `listed` + 1. listed: number of documents in the list.
    """
    if negative is None:
        return 0.0
    return max(0.0, 1 - negative.rank / (positive.rank if positive else listed + 1))


@dataclass(frozen=True)
class Evidence:
    """Evidence about a query's documents. known: shingles by document id. lists: ranked lists by run label."""

    query_id: str
    known: Mapping[str, Shingles]
    lists: Mapping[str, RankedList]

    @classmethod
    def of(cls, browsed: Browsed, query_id: str, documents: Mapping[str, Document]) -> "Evidence":
        """Collect the evidence for a query from all runs and from its documents. documents: by document id."""
        known = {doc_id: shingles(item.contents) for doc_id, item in documents.items()}
        lists = {label: run.ranked(query_id) for label, run in browsed.runs.items()}
        return cls(query_id, known, lists)

    def suspected(self, positive: Sequence[str], negative: Sequence[str]) -> list[SuspectedNegative]:
        """Return each distinct negative with its suspicion score, copy + agreement. Both arguments are document ids.

        copy: the highest resemblance to a positive, 0 if below 0.3. agreement: the mean of `above` over the runs.
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
            reasons.append(f"shares {100 * score:.0f}% of word triples with positive {alike}")
        for label, ranks in by_list.items():
            positive = best[label]
            if height := above(ranks.get(doc_id), positive, len(self.lists[label].doc_ids)):
                score += height / len(by_list)
                best_is = f"the best positive at {positive.rank}" if positive else "and finds no positive"
                reasons.append(f"{label} ranks it at {ranks[doc_id].rank}, {best_is}")
        return SuspectedNegative(self.query_id, doc_id, score, tuple(reasons), alike)


WHY = {
    "positive": "a known positive",
    "duplicate": "the same text as a positive",
    "repeated": "already listed",
    "score": "score too high",
    "unscored": "no score to filter by",
    "no scored positive": "no positive has a score to compare with",
    "answer": "contains an answer to the query",
}
"""Descriptions of the reasons for which the built-in miners drop a candidate, by reason."""


class ShownDocument(NamedTuple):
    """A document on the page. standings: rank and score in each run, or None. marked: whether a reader marked it."""

    doc_id: str
    title: str
    text: CutText
    standings: tuple[Standing | None, ...]
    mined_score: float | None
    suspected: SuspectedNegative | None
    marked: bool


class LeftOut(NamedTuple):
    """A candidate that the miner dropped. why: the reason. score: the score that decided, if any."""

    doc_id: str
    rank: int
    why: str
    score: float | None
    text: str


@dataclass(frozen=True)
class QueryPage:
    """The content of a query's page. candidates: their number, if known. mined: whether the list contains the query."""

    query_id: str
    text: str
    systems: Sequence[str]
    positives: Sequence[ShownDocument]
    negatives: Sequence[ShownDocument]
    left_out: Sequence[LeftOut]
    candidates: int | None
    mined: bool


def query_page(browsed: Browsed, query_id: str, label: str, marks: Collection[str] = ()) -> QueryPage:
    """Collect the content of a query's page. label: the list of negatives. marks: ids of documents that were marked."""
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


KEPT = 1_000
"""Maximum number of suspicious negatives to keep per list."""
_BLOCK = 16
_PAUSE = 0.25


@dataclass
class ListSurvey:
    """Survey of one list: how many negatives it has, how many are suspected, and a heap of the most suspicious."""

    negatives: int = 0
    worst: list[tuple[float, int, int, SuspectedNegative]] = field(default_factory=list)
    suspected: int = 0

    def add(self, position: int, suspects: Sequence[SuspectedNegative]) -> None:
        """Add the scored negatives of the query in row `position`. Ties keep the order of queries and negatives."""
        self.negatives += len(suspects)
        for number, item in enumerate(suspects):
            if item.score > 0:
                self.suspected += 1
                entry = (item.score, -position, -number, item)
                (heapq.heappush if len(self.worst) < KEPT else heapq.heappushpop)(self.worst, entry)

    def most_suspicious(self) -> list[SuspectedNegative]:
        """Return up to `KEPT` suspected negatives, the most suspicious first."""
        return [item for *_, item in sorted(list(self.worst), key=lambda entry: entry[:3], reverse=True)]


class Survey:
    """A pass that scores the negatives of all queries. `lists` holds the results so far."""

    def __init__(self, browsed: Browsed) -> None:
        self._browsed = browsed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go, name="survey", daemon=True)
        self.total = len(browsed.search.query_ids)
        self.done = 0
        self.lists = {label: ListSurvey() for label in browsed.lists}

    @property
    def finished(self) -> bool:
        """Whether all queries have been examined."""
        return self.done >= self.total

    def start(self) -> None:
        """Start the pass in a background thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the pass and wait for its thread."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def run(self) -> "Survey":
        """Run the whole pass in the calling thread and return the survey."""
        for _ in self._steps():
            pass
        return self

    def _go(self) -> None:
        """Run the pass with pauses between blocks, so that pages stay fast."""
        began = time.monotonic()
        for done in self._steps():
            if self._stopped.is_set():
                return
            if done % _BLOCK == 0:
                time.sleep(_PAUSE * (time.monotonic() - began))
                began = time.monotonic()

    def _steps(self) -> Iterator[int]:
        for position, query_id in enumerate(self._browsed.search.query_ids):
            self._look_at(position, query_id)
            self.done = position + 1
            yield self.done

    def _look_at(self, position: int, query_id: str) -> None:
        entries = {label: one.negatives(query_id) for label, one in self._browsed.lists.items()}
        mined = {label: item.negatives for label, item in entries.items() if item is not None}
        known = {label: self._browsed.positives_of(query_id, label) for label in mined}
        ids = [doc_id for label, doc_ids in mined.items() for doc_id in (*known[label], *doc_ids)]
        evidence = Evidence.of(self._browsed, query_id, self._browsed.documents(list(dict.fromkeys(ids))))
        for label, doc_ids in mined.items():
            self.lists[label].add(position, evidence.suspected(known[label], doc_ids))
