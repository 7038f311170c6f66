"""Filters that drop candidates, and the texts that they read from a collection."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import set_aside
from hardneg.formats.qrels import positives
from hardneg.formats.texts import Match, PassageAnswers
from hardneg.mining.ranks import check_counts
from hardneg.mining.thresholds import COMPARING, RULES, check_threshold, judged
from hardneg.protocols import FilterTexts, NegativeFilter
from hardneg.records import SCORES, Candidates, DataError, Document, Negatives, PluginError, RankedList
from hardneg.records.text import terms

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

EXCLUDED, SAME_TEXT = "excluded", "same text"
_QUERIES = 256


@dataclass(frozen=True, eq=False)
class MiningTexts:
    """The texts of a collection and of the queries of one split, read at first use."""

    collection: StoredCollection
    split: str
    _passages: dict[Match, PassageAnswers] = field(default_factory=dict, repr=False)
    _sharing: set[str] = field(default_factory=set, repr=False)

    def queries(self, query_ids: Sequence[str]) -> list[str]:
        """Return the texts of the given queries, which must be in the split, in the order of the ids."""
        return [self._queries[query_id] for query_id in query_ids]

    def documents(self, doc_ids: Sequence[str]) -> list[Document]:
        """Return the documents in the order of the ids. Raises DataError if a document is not in the corpus."""
        corpus = self.collection.corpus
        return corpus.documents_at(corpus.known_rows(doc_ids, "candidate", "search this corpus again"))

    def aside(self, known: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
        """Return, by query id, the documents with the query's text, positives of queries with that text, and copies."""
        queries = [query for split in self.collection.splits for query in self.collection.queries(split)]
        ids, texts = [query.query_id for query in queries], [query.text for query in queries]
        rows, sharing = set_aside(self.collection.corpus, ids, texts, known)
        self._sharing.update(sharing.intersection(self._queries))
        names = {id(each): frozenset(self.collection.corpus.ids(each)) for each in rows.values()}
        return {ids[at]: names[id(each)] for at, each in rows.items() if ids[at] in self._queries}

    def answers(self, match: Match) -> PassageAnswers:
        """Return a matcher that finds the queries' answers in passages. Raises DataError if there are no answers."""
        if match not in self._passages:
            self._passages[match] = PassageAnswers.of(self.collection, self.split, match)
        return self._passages[match]

    @property
    def facts(self) -> dict[str, int]:
        """Counts of queries that share a text, of queries without answers, and of answers that cannot be matched."""
        counts = Counter({"queries with the same text as another": len(self._sharing)} if self._sharing else {})
        for passages in self._passages.values():
            counts.update(passages.left_out)
            counts["queries without answers"] = len(self.collection.queries(self.split)) - len(passages.query_ids)
        return dict(counts)

    @cached_property
    def positives_elsewhere(self) -> dict[str, frozenset[str]]:
        """The documents that are relevant to queries of the other splits, by split; splits without any are omitted.

        A model trained on such a document, even as a negative, has already seen it when tested on that split.
        """
        others = (split for split in self.collection.splits if split != self.split)
        known = {split: positives(self.collection.qrels(split)).values() for split in others}
        return {split: frozenset(chain.from_iterable(lists)) for split, lists in known.items() if lists}

    @cached_property
    def _queries(self) -> dict[str, str]:
        queries = self.collection.queries(self.split)
        return dict(zip(queries.query_ids, queries.texts, strict=True))


@dataclass(frozen=True)
class ExcludedFilter:
    """Drop a query's excluded documents, such as documents with the query's own text, before any other filter runs.

    Source: BRIGHT (Su et al., ICLR 2025), `excluded_ids`.

    Attributes:
        excluded: the documents to drop, by query id.
        reason: the reason that is recorded for a dropped document.
    """

    version: ClassVar[int] = 1

    excluded: Mapping[str, Collection[str]]
    reason: str = EXCLUDED

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Yield, for each query, the ids of its excluded documents, listed or not, mapped to `reason`."""
        for query in candidates:
            yield dict.fromkeys(self.excluded.get(query.query_id, ()), self.reason)


@dataclass(frozen=True)
class AnswerFilter:
    """Drop documents that contain a short answer to the query.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 3.2.

    Attributes:
        match: whether answers are matched as words or as regular expressions.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("answers",)

    match: Literal["string", "regex"] = "string"

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Yield, per query, a map from documents that contain an answer to the reason `answer`; may be empty."""
        waiting, answers = iter(candidates), texts.answers(self.match)
        while block := list(islice(waiting, _QUERIES)):
            lists = [query.listed for query in block]
            matches = answers.in_lists([query.query_id for query in block], lists)
            for doc_ids, row in zip(lists, matches.tolist(), strict=True):
                yield {doc_id: "answer" for doc_id, has in zip(doc_ids, row, strict=False) if has}


@dataclass(frozen=True, kw_only=True)
class DocumentsFilter:
    """Drop documents that are judged for queries of other splits.

    A model trained on documents of dev and test queries, even as negatives, has seen them, so its results on those
    splits do not carry over to unseen documents.

    Attributes:
        of: the split whose judgements drop no documents; empty means the split that is mined.
    """

    version: ClassVar[int] = 1

    of: str = ""

    def reasons(self, candidates: Iterable[Candidates], texts: MiningTexts) -> Iterator[Mapping[str, str]]:
        """Yield, for each query, the dropped candidates mapped to the reason. Raises DataError for an unknown split."""
        collection, own = texts.collection, self.of or texts.split
        if own not in collection.splits:
            raise DataError(f"documents.of: no split {own!r}; available: {', '.join(collection.splits)}")
        others = (collection.qrels(split) for split in collection.splits if split != own)
        elsewhere = {doc_id for qrels in others for judged in qrels.values() for doc_id in judged}
        for query in candidates:
            yield dict.fromkeys(elsewhere.intersection(query.listed), "outside the named documents")


@dataclass(frozen=True)
class NearCopyFilter:
    """Drop exact and near copies of a positive's text.

    The resemblance of two texts is the Jaccard similarity of their sets of w-word shingles.

    Source: Broder, On the Resemblance and Containment of Documents (SEQUENCES 1997), section 2.

    Attributes:
        resemblance: lowest resemblance at which a document is dropped, above 0 and at most 1.
        words: w, the number of words of a shingle; a shorter text is one shingle. In scripts without spaces, every two
            adjacent letters count as a word.
    """

    version: ClassVar[int] = 2

    resemblance: float = 0.8
    words: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.resemblance <= 1:
            raise PluginError(f"resemblance must be above 0 and at most 1, not {self.resemblance}")
        check_counts(words=self.words)

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Yield, for each query, the ids of candidates that resemble a positive, mapped to `near copy`."""
        for query in candidates:
            known = [self.shingles(document.contents) for document in texts.documents(list(query.positives))]
            found = {
                each.doc_id: self.shingles(each.contents) for each in texts.documents(query.listed if known else [])
            }
            like = self.resemblance
            near = (name for name, own in found.items() if any(len(own & s) >= like * len(own | s) for s in known))
            yield dict.fromkeys(near, "near copy")

    def shingles(self, text: str) -> frozenset[tuple[str, ...]]:
        """Return the distinct shingles of a text, as tuples of words, ignoring case."""
        words = terms(text)
        starts = range(max(1, len(words) - self.words + 1))
        return frozenset(tuple(words[start : start + self.words]) for start in starts)


@dataclass(frozen=True, kw_only=True)
class ScoreFilter:
    """Drop documents whose score fails a rule; scores come from the run labelled `scores`, or else from the list.

    Each rule is the same as in the miner of that name. Documents drawn from the corpus have no score and are kept.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3; Moreira et al., NV-Retriever (arXiv 2407.15831).

    Attributes:
        rule: the scores to keep. denoised: below the threshold; max-score: up to the threshold; pos-margin: at least
            the threshold below the positive's score; pos-percent: up to this share of the positive's score.
        threshold: the score, margin or share that the rule compares with; the share is above 0 and at most 1.
        without_positive: whether to drop or keep all candidates of a query without a scored positive.
    """

    version: ClassVar[int] = 1

    rule: Literal["denoised", "max-score", "pos-margin", "pos-percent"]
    threshold: float
    without_positive: Literal["drop", "keep"] = "drop"

    def __post_init__(self) -> None:
        check_threshold(self.rule, "threshold", self.threshold)

    @property
    def compares(self) -> bool:
        """Whether the rule compares candidates' scores with the scores of their query's positives."""
        return self.rule in COMPARING

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Yield, for each query, the dropped documents mapped to `score`, `unscored` or `no scored positive`."""
        rule, keep = RULES[self.rule](self.threshold), self.without_positive == "keep"
        for query in candidates:
            against: dict[str, str] = {}
            for ranked in (ranked for label, ranked in query.hits.items() if label != SCORES):
                doc_ids = [ranked.doc_ids[i] for i in np.flatnonzero(~np.isnan(ranked.scores)).tolist()]
                _, verdicts, noted = judged(query, doc_ids, query.hits.get(SCORES, ranked), rule, self.compares)
                if not (noted and keep):
                    against |= {doc_id: verdict for doc_id, verdict in zip(doc_ids, verdicts, strict=True) if verdict}
            yield against


def paired(
    items: Iterable[_Item], through: Callable[[Iterator[_Item]], Iterator[_Result]]
) -> Iterator[tuple[_Item, _Result]]:
    """Yield each item with the result of the plugin's method `through` for it. Only items read ahead are in memory.

    Raises:
        PluginError: the plugin does not return one result per item.
    """
    ahead: deque[_Item] = deque()

    def read() -> Iterator[_Item]:
        for item in items:
            ahead.append(item)
            yield item

    reading = read()
    for result in through(reading):
        if not ahead:
            raise PluginError("a miner or filter returned more results than queries; it must return one per query")
        yield ahead.popleft(), result
    if ahead or next(reading, None) is not None:
        raise PluginError("a miner or filter returned fewer results than queries; it must return one per query")


@dataclass(frozen=True)
class Filters:
    """Filters, which are applied in order, and the texts that they read.

    aside: by query, the documents that cannot be negatives because of the query's text.
    """

    plugins: Sequence[NegativeFilter] = ()
    texts: Any = None
    aside: Mapping[str, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        texts: MiningTexts,
        plugins: Iterable[NegativeFilter],
        answers: Match | None,
        known: Mapping[str, Sequence[str]],
    ) -> "Filters":
        """Build the filters for mining; excluded documents and documents with the query's text are dropped first.

        answers: matching mode of an answer filter before `plugins`; None adds none. known: positives by query id.
        """
        aside = texts.aside(known)
        first = [ExcludedFilter(texts.collection.excluded(), EXCLUDED), ExcludedFilter(aside, SAME_TEXT)]
        more = [] if answers is None else [AnswerFilter(answers)]
        return cls([*(each for each in first if each.excluded), *more, *plugins], texts, aside=aside)

    def apply(self, candidates: Iterable[Candidates], dropped: Counter[str]) -> Iterator[Candidates]:
        """Return the candidates without the documents that the filters drop; `dropped` counts these by reason.

        Known positives stay in the lists, because miners exclude them.
        """
        for each in self.plugins:
            candidates = self._apply(candidates, each, dropped)
        return iter(candidates)

    def apply_to_drawn(self, mined: Iterable[Negatives]) -> Iterator[Negatives]:
        """Return the negatives without the random documents (with score nan) that a filter drops."""
        for each in self.plugins:
            mined = self._apply_to_drawn(mined, each)
        return iter(mined)

    def _apply(
        self, candidates: Iterable[Candidates], by: NegativeFilter, dropped: Counter[str]
    ) -> Iterator[Candidates]:
        for query, reasons in paired(candidates, lambda queries: by.reasons(queries, texts=self.texts)):
            known = frozenset(query.positives)
            if against := {doc_id: reason for doc_id, reason in reasons.items() if doc_id not in known}:
                for ranked in query.hits.values():
                    dropped.update(against[doc_id] for doc_id in ranked.doc_ids if doc_id in against)
                query = replace(query, hits={name: ranked.without(against) for name, ranked in query.hits.items()})
            yield query

    def _apply_to_drawn(self, mined: Iterable[Negatives], by: NegativeFilter) -> Iterator[Negatives]:
        def drawn(item: Negatives) -> Candidates:
            doc_ids = [item.negatives[i] for i in np.flatnonzero(np.isnan(item.scores)).tolist()]
            hits = {"drawn": RankedList(doc_ids, np.full(len(doc_ids), np.nan, np.float32))}
            return Candidates(item.query_id, item.positives, hits, ())

        for item, against in paired(mined, lambda items: by.reasons(map(drawn, items), texts=self.texts)):
            bad = np.array([doc_id in against for doc_id in item.negatives], bool) & np.isnan(item.scores)
            if bad.any():
                left = [doc_id for doc_id, out in zip(item.negatives, bad.tolist(), strict=True) if not out]
                dropped = Counter(item.dropped)
                dropped.update(against[item.negatives[i]] for i in np.flatnonzero(bad).tolist())
                drops = item.drops and replace(item.drops, chosen=item.drops.chosen[~bad])
                item = replace(item, negatives=left, scores=item.scores[~bad], dropped=dict(dropped), drops=drops)
            yield item
