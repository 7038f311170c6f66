"""Texts and answers of a collection, for filters."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain

from hardneg.formats.answer_matching import Match, PassageAnswers
from hardneg.formats.collection import StoredCollection
from hardneg.formats.own_texts import set_aside
from hardneg.formats.qrels import positives
from hardneg.records.types import Document


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
        others = {
            split: positives(self.collection.qrels(split)) for split in self.collection.splits if split != self.split
        }
        documents = {split: frozenset(chain.from_iterable(known.values())) for split, known in others.items()}
        return {split: doc_ids for split, doc_ids in documents.items() if doc_ids}

    @cached_property
    def _queries(self) -> dict[str, str]:
        queries = self.collection.queries(self.split)
        return dict(zip(queries.query_ids, queries.texts, strict=True))
