"""Which passages of a corpus have an answer to which questions."""

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hardneg.data.answer_matching import Finder, Match, finder, prepared
from hardneg.data.collection import StoredCollection
from hardneg.data.corpus import Corpus
from hardneg.errors import DataError

_QUESTIONS = 256


class PassageAnswers:
    """Looks for the answers to questions in the texts of passages; titles are not looked at.

    Texts are read when they are asked for, and each is taken apart once for every 256 questions. A question
    without answers has them nowhere.

    left_out: how many answers could not be used, by reason, each question's counted once.
    """

    def __init__(self, corpus: Corpus, answers: Mapping[str, Sequence[str]], match: Match = "string") -> None:
        self.left_out: Counter[str] = Counter()
        self._corpus = corpus
        self._answers = answers
        self._match: Match = match
        self._finders: dict[str, Finder] = {}

    @classmethod
    def of(cls, collection: StoredCollection, split: str, match: Match = "string") -> "PassageAnswers":
        """Looks for the answers to the queries of one split. Raises DataError where it has none."""
        answers = collection.answers(split)
        if not answers:
            raise DataError(f"split {split} has no answers: take a dataset that has them, or what needs none")
        return cls(collection.corpus, answers, match)

    @property
    def query_ids(self) -> list[str]:
        """The questions that have answers."""
        return [query_id for query_id, texts in self._answers.items() if texts]

    def contained(self, query_ids: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether each passage has an answer: bool [Q, k] for Q questions and `rows`, int64 [Q, k]; -1 has none."""
        found = np.zeros(rows.shape, bool)
        for start in range(0, len(query_ids), _QUESTIONS):
            block = slice(start, start + _QUESTIONS)
            found[block] = self._block(query_ids[block], rows[block])
        return found

    def in_lists(self, query_ids: Sequence[str], lists: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
        """The same for lists of document ids, one a question: bool [Q, k], k the length of the longest."""
        lengths = np.array([len(doc_ids) for doc_ids in lists], np.int64)
        rows = np.full((len(lists), int(lengths.max(initial=0))), -1, np.int64)
        rows[np.arange(rows.shape[1]) < lengths[:, None]] = self._corpus.rows([i for part in lists for i in part])
        return self.contained(query_ids, rows)

    def _block(self, query_ids: Sequence[str], rows: NDArray[np.int64]) -> NDArray[np.bool_]:
        asked = np.array([bool(self._answers.get(query_id)) for query_id in query_ids], bool)[:, None] & (rows >= 0)
        distinct, place = np.unique(rows[asked], return_inverse=True)
        texts = [prepared(document.text, self._match) for document in self._corpus.documents_at(distinct)]
        owners = np.nonzero(asked)[0].tolist()
        found = np.zeros(rows.shape, bool)
        pairs = zip(owners, place.tolist(), strict=True)
        found[asked] = [self._finder(query_ids[owner])(texts[number]) for owner, number in pairs]
        return found

    def _finder(self, query_id: str) -> Finder:
        if query_id not in self._finders:
            self._finders[query_id] = finder(self._answers[query_id], self._match, self.left_out)
        return self._finders[query_id]
