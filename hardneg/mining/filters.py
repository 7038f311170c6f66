"""Filters of candidates, and the texts of a collection that they read."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, islice
from typing import ClassVar, Literal

import numpy as np

from hardneg.formats.collection import StoredCollection
from hardneg.formats.corpus import set_aside
from hardneg.formats.qrels import positives
from hardneg.formats.texts import Match, PassageAnswers
from hardneg.mining.miners.selection import COMPARING, RULES, check_counts, check_threshold
from hardneg.mining.miners.thresholds import judged
from hardneg.protocols import FilterTexts
from hardneg.records import SCORES, Candidates, DataError, Document, PluginError
from hardneg.records.text import terms

EXCLUDED, SAME_TEXT = "excluded", "same text"
_QUERIES = 256


@dataclass(frozen=True, eq=False)
class MiningTexts:
    """The texts of a collection and of the queries of one split, each read at its first use."""

    collection: StoredCollection
    split: str
    _passages: dict[Match, PassageAnswers] = field(default_factory=dict, repr=False)
    _sharing: set[str] = field(default_factory=set, repr=False)

    def queries(self, query_ids: Sequence[str]) -> list[str]:
        """Return the text of each query."""
        return [self._queries[query_id] for query_id in query_ids]

    def documents(self, doc_ids: Sequence[str]) -> list[Document]:
        """Return the documents. Raises DataError where the corpus lacks one."""
        corpus = self.collection.corpus
        return corpus.documents_at(corpus.known_rows(doc_ids, "candidate", "search this corpus again"))

    def aside(self, known: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
        """By query of the split: documents that are no negatives because of its text, as `set_aside` finds them."""
        queries = [query for split in self.collection.splits for query in self.collection.queries(split)]
        ids, texts = [query.query_id for query in queries], [query.text for query in queries]
        rows, sharing = set_aside(self.collection.corpus, ids, texts, known)
        self._sharing.update(sharing.intersection(self._queries))
        names = {id(each): frozenset(self.collection.corpus.ids(each)) for each in rows.values()}
        return {ids[at]: names[id(each)] for at, each in rows.items() if ids[at] in self._queries}

    def answers(self, match: Match) -> PassageAnswers:
        """Return the matcher of the queries' answers in passages. Raises DataError where the split has none."""
        if match not in self._passages:
            self._passages[match] = PassageAnswers.of(self.collection, self.split, match)
        return self._passages[match]

    @property
    def facts(self) -> dict[str, int]:
        """The number of queries that share a text, of those without answers, and of answers that could not be used."""
        counts = Counter({"queries with the text of another": len(self._sharing)} if self._sharing else {})
        for passages in self._passages.values():
            counts.update(passages.left_out)
            counts["queries without answers"] = len(self.collection.queries(self.split)) - len(passages.query_ids)
        return dict(counts)

    @cached_property
    def positives_elsewhere(self) -> dict[str, frozenset[str]]:
        """By other split: the documents that are relevant to its queries; splits without any are left out.

        A negative that is one of them has been seen in training when that split is tested.
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
    """Drop the documents that do not count for a query, or are its text: before all other filters, where there are any.

    Source: BRIGHT (Su et al., ICLR 2025), `excluded_ids`.

    Attributes:
        excluded: the documents by query id.
        reason: why they are dropped.
    """

    version: ClassVar[int] = 1

    excluded: Mapping[str, Collection[str]]
    reason: str = EXCLUDED

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return the reason for each excluded document."""
        for query in candidates:
            yield dict.fromkeys(self.excluded.get(query.query_id, ()), self.reason)


@dataclass(frozen=True)
class AnswerFilter:
    """Drop documents that contain a short answer to the query.

    Source: Karpukhin et al., Dense Passage Retrieval for Open-Domain Question Answering (EMNLP 2020), section 3.2.

    Attributes:
        match: match answers as words, or as regular expressions.
    """

    version: ClassVar[int] = 1
    needs: ClassVar[tuple[str, ...]] = ("answers",)

    match: Literal["string", "regex"] = "string"

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return `answer` for each document that contains one; queries without answers keep all."""
        waiting, answers = iter(candidates), texts.answers(self.match)
        while block := list(islice(waiting, _QUERIES)):
            lists = [query.listed for query in block]
            matches = answers.in_lists([query.query_id for query in block], lists)
            for doc_ids, row in zip(lists, matches.tolist(), strict=True):
                yield {doc_id: "answer" for doc_id, has in zip(doc_ids, row, strict=False) if has}


@dataclass(frozen=True, kw_only=True)
class DocumentsFilter:
    """Drops the documents that are judged for queries of other splits.

    A model that is trained with documents of dev and test queries, be it as negatives, has seen them: what it then
    does on unseen documents is not known.

    Attributes:
        of: the split whose documents stay, those that are judged for no query of another split; the default is the
            split that is mined.
    """

    version: ClassVar[int] = 1

    of: str = ""

    def reasons(self, candidates: Iterable[Candidates], texts: MiningTexts) -> Iterator[Mapping[str, str]]:
        """`outside the named documents` for each candidate that is. Raises DataError where there is no such split."""
        collection, own = texts.collection, self.of or texts.split
        if own not in collection.splits:
            raise DataError(f"documents.of: no split {own!r} in this collection; it has {', '.join(collection.splits)}")
        others = (collection.qrels(split) for split in collection.splits if split != own)
        elsewhere = {doc_id for qrels in others for judged in qrels.values() for doc_id in judged}
        for query in candidates:
            yield dict.fromkeys(elsewhere.intersection(query.listed), "outside the named documents")


@dataclass(frozen=True)
class NearCopyFilter:
    """Drop documents whose text resembles that of a positive: exact copies, and near ones.

    The resemblance of two texts is the Jaccard similarity of their sets of w-word shingles.

    Source: Broder, On the Resemblance and Containment of Documents (SEQUENCES 1997), section 2.

    Attributes:
        resemblance: the lowest one that drops a document, above 0 and at most 1.
        words: w, the words of a shingle; a shorter text is one shingle. In scripts without blanks between words, every
            two letters in a row are one.
    """

    version: ClassVar[int] = 2

    resemblance: float = 0.8
    words: int = 4

    def __post_init__(self) -> None:
        if not 0 < self.resemblance <= 1:
            raise PluginError(f"resemblance must be above 0 and at most 1, not {self.resemblance}")
        check_counts(words=self.words)

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return `near copy` for each document that resembles a positive."""
        for query in candidates:
            known = [self.runs(document.contents) for document in texts.documents(list(query.positives))]
            runs = {each.doc_id: self.runs(each.contents) for each in texts.documents(query.listed if known else [])}
            like = self.resemblance
            near = (name for name, own in runs.items() if any(len(own & r) >= like * len(own | r) for r in known))
            yield dict.fromkeys(near, "near copy")

    def runs(self, text: str) -> frozenset[tuple[str, ...]]:
        """Return the shingles of a text, case ignored."""
        words = terms(text)
        starts = range(max(1, len(words) - self.words + 1))
        return frozenset(tuple(words[start : start + self.words]) for start in starts)


@dataclass(frozen=True, kw_only=True)
class ScoreFilter:
    """Drop documents that a rule does not keep, by their scores in the run labelled `scores`, or else in their list.

    The rules are those of the miners of these names; a document drawn from the corpus has no score, and stays.

    Source: Qu et al., RocketQA (NAACL 2021), section 3.3; Moreira et al., NV-Retriever (arXiv 2407.15831).

    Attributes:
        rule: the scores to keep: denoised, below the threshold; max-score, up to it; pos-margin, at least the
            threshold below the positive's; pos-percent, up to this share of the positive's.
        threshold: of the rule.
        without_positive: for a query without a scored positive, drop all candidates, or keep all.
    """

    version: ClassVar[int] = 1

    rule: Literal["denoised", "max-score", "pos-margin", "pos-percent"]
    threshold: float
    without_positive: Literal["drop", "keep"] = "drop"

    def __post_init__(self) -> None:
        check_threshold(self.rule, "threshold", self.threshold)

    @property
    def compares(self) -> bool:
        """Whether the rule compares candidates with their query's positives."""
        return self.rule in COMPARING

    def reasons(self, candidates: Iterable[Candidates], texts: FilterTexts) -> Iterator[Mapping[str, str]]:
        """Return `score`, `unscored`, or `no scored positive` for documents that are not kept."""
        rule, keep = RULES[self.rule](self.threshold), self.without_positive == "keep"
        for query in candidates:
            against: dict[str, str] = {}
            for ranked in (ranked for label, ranked in query.hits.items() if label != SCORES):
                doc_ids = [ranked.doc_ids[i] for i in np.flatnonzero(~np.isnan(ranked.scores)).tolist()]
                _, verdicts, noted = judged(query, doc_ids, query.hits.get(SCORES, ranked), rule, self.compares)
                if not (noted and keep):
                    against |= {doc_id: verdict for doc_id, verdict in zip(doc_ids, verdicts, strict=True) if verdict}
            yield against
