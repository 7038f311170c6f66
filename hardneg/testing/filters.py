"""The contract of filters of negatives (`hardneg.registry.protocols.NegativeFilter`) as tests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np

from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.mining.filters import MiningTexts
from hardneg.records.types import Answers, Candidates, Document, Judgement, Query, RankedList
from hardneg.runtime.progress import Silent
from hardneg.testing.plugin_contract import LOOKAHEAD, PluginTests, rule

_WORDS = ["apple", "bread", "cheese", "date", "egg", "fig", "grape", "honey", "ice", "jam"]
_DOCUMENTS = {f"d{row}": f"{_WORDS[row % 10]} {_WORDS[row % 7]} {_WORDS[row % 3]} {row}" for row in range(40)}
_QUERIES = {f"q{row}": _WORDS[row] for row in range(6)}


class FilterTests(PluginTests):
    """Set `plugin`; `lookahead` is how many queries it may read before its first answer.

    The collection of the tests has 40 documents of four words, `d0` to `d39`, and six queries, `q0` to `q5`, of
    one word, which is their answer too.
    """

    lookahead: ClassVar[int] = LOOKAHEAD

    def candidates(self) -> list[Candidates]:
        """Six queries, each with two lists of 0 to 20 documents, with or without its positive."""
        return [self._query(number) for number in range(len(_QUERIES))]

    def _query(self, number: int) -> Candidates:
        length, doc_ids = (20, 7, 3, 0)[number % 4], list(_DOCUMENTS)
        listed = [doc_ids[(3 * position + number) % len(doc_ids)] for position in range(length)]
        scores = np.linspace(1, 0, length, dtype=np.float32)
        hits = {"run": RankedList(listed, scores), "other": RankedList(listed[::-2], scores[::2].copy())}
        return Candidates(f"q{number}", [f"d{number}"], hits, doc_ids)

    def texts(self, folder: Path) -> MiningTexts:
        """The texts that a filter may read."""
        stored = folder / "collection"
        if not stored.exists():
            write_collection(_Tried(), stored, Silent())
        return MiningTexts(StoredCollection.open(stored), "train")

    def _reasons(self, folder: Path, candidates: Iterable[Candidates]) -> list[Mapping[str, str]]:
        (own := folder / "plugin").mkdir(exist_ok=True)
        return [dict(each) for each in self.make(own).reasons(iter(candidates), texts=self.texts(folder))]

    def test_one_answer_a_query_in_order(self, tmp_path: Path) -> None:
        """Short and empty lists are no error."""
        candidates = self.candidates()
        reasons = self._reasons(tmp_path, candidates)
        rule(len(reasons) == len(candidates), "one mapping for each Candidates, in the same order", len(reasons))
        rule(not self._reasons(tmp_path, []), "no mapping where there are no Candidates")
        words = {word for each in reasons for word in each.values()}
        rule(all(isinstance(word, str) and word for word in words), "a reason is a word that is counted", words)

    def test_reasons_depend_on_the_query_only(self, tmp_path: Path) -> None:
        """Reasons are the same in another order, in another batch, and again."""
        candidates = self.candidates()
        together = self._reasons(tmp_path, candidates)
        text = "the reasons for a query depend on that query and its lists only, not on"
        rule(self._reasons(tmp_path, candidates[::-1])[::-1] == together, f"{text} the order of queries")
        alone = [each for query in candidates for each in self._reasons(tmp_path, [query])]
        rule(alone == together, f"{text} the other queries of a batch")
        rule(self._reasons(tmp_path, candidates) == together, f"{text} earlier calls")

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of queries."""
        text = f"candidates are read lazily: at most {self.lookahead} before the first answer"

        def endless() -> Iterator[Candidates]:
            for _ in range(self.lookahead):
                yield self._query(0)
            rule(False, text)

        (own := tmp_path / "plugin").mkdir()
        next(iter(self.make(own).reasons(endless(), texts=self.texts(tmp_path))))

    def test_candidates_stay_as_they_are(self, tmp_path: Path) -> None:
        """Other filters, and the miner, read the same arrays."""
        candidates = self.candidates()
        before = [[item.scores.copy() for item in query.hits.values()] for query in candidates]
        self._reasons(tmp_path, candidates)
        after = [[item.scores for item in query.hits.values()] for query in candidates]
        same = all(np.array_equal(a, b) for x, y in zip(before, after, strict=True) for a, b in zip(x, y, strict=True))
        rule(same, "a filter does not change the lists it reads")

    def test_documents_that_were_drawn(self, tmp_path: Path) -> None:
        """Drawn documents have a list of their own, with scores of nan."""
        nan = np.full(4, np.nan, np.float32)
        drawn = Candidates("q1", ["d1"], {"drawn": RankedList(["d5", "d11", "d21", "d31"], nan)}, ())
        reasons = self._reasons(tmp_path, [drawn])
        rule(len(reasons) == 1, "documents without a score are no error")


class _Tried:
    def documents(self) -> Iterator[Document]:
        return (Document(doc_id, text) for doc_id, text in _DOCUMENTS.items())

    def splits(self) -> Sequence[str]:
        return ("train",)

    def queries(self, split: str) -> Iterator[Query]:
        return (Query(query_id, text) for query_id, text in _QUERIES.items())

    def answers(self, split: str) -> Iterator[Answers]:
        return (Answers(query_id, (text,)) for query_id, text in _QUERIES.items())

    def qrels(self, split: str) -> Iterator[Judgement]:
        return (Judgement(query_id, f"d{row}", 1) for row, query_id in enumerate(_QUERIES))

    def notes(self) -> Sequence[str]:
        return ()
