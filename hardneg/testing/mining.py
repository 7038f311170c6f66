"""The contracts of miners (`hardneg.protocols.NegativeMiner`) and of filters (`NegativeFilter`) as tests."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.mining.filters import MiningTexts
from hardneg.records import Answers, Candidates, Document, Judgement, Negatives, Query, RankedList
from hardneg.runtime import Silent, generator
from hardneg.testing.plugin_contract import LOOKAHEAD, PluginTests, check_independent, check_unchanged, lazily, rule

_CORPUS = [f"d{row}" for row in range(400)]
_SEED = 7


class MinerTests(PluginTests):
    """Set `plugin`; `runs` are the labels of the ranked lists that it reads, the one to select from first.

    `lookahead` is how many queries it may read before it gives the first answer. Override `candidates` for a
    miner that needs lists of another kind.
    """

    runs: ClassVar[tuple[str, ...]] = ("run",)
    lookahead: ClassVar[int] = LOOKAHEAD

    def candidates(self) -> list[Candidates]:
        """Twelve queries with lists of 0 to 60 documents, positives at the top, inside and outside."""
        return [self._query(number) for number in range(12)]

    def _query(self, number: int) -> Candidates:
        draws = generator(_SEED, "kit", number)
        listed = [_CORPUS[row] for row in draws.permutation(len(_CORPUS))[: (60, 25, 3, 0)[number % 4]]]
        positives = [*listed[:1], *listed[9:11], f"d{number}"][number % 3 :]
        copies = frozenset(listed[2:4]) - frozenset(positives)
        scores = np.sort(draws.normal(0, 1e4 if number == 4 else 2, len(listed)).astype(np.float32))[::-1].copy()
        hits = {label: RankedList(listed, scores) for label in self.runs}
        for label in self.runs[1:]:
            order = draws.permutation(len(listed))
            hits[label] = RankedList([listed[i] for i in order], scores)
        return Candidates(f"q{number}", list(dict.fromkeys(positives)), hits, _CORPUS, copies)

    def _mine(self, folder: Path, candidates: Iterable[Candidates], seed: int = _SEED) -> list[Negatives]:
        return list(self.make(folder).mine(candidates, seed=seed))

    def test_one_answer_a_query_in_order(self, tmp_path: Path) -> None:
        candidates = self.candidates()
        mined = self._mine(tmp_path, iter(candidates))
        text = "one Negatives for each Candidates, in the same order"
        ids = [item.query_id for item in mined]
        rule(ids == [item.query_id for item in candidates], text, ids)
        kept = all(list(a.positives) == list(b.positives) for a, b in zip(candidates, mined, strict=True))
        rule(kept, "a query's positives are handed on unchanged")
        rule(not self._mine(tmp_path, []), "no Negatives where there are no Candidates")

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of queries."""
        candidates = lazily((self._query(0) for _ in range(self.lookahead)), "candidates", self.lookahead)
        next(iter(self.make(tmp_path).mine(candidates, seed=_SEED)))

    def test_never_a_positive(self, tmp_path: Path) -> None:
        candidates = self.candidates()
        for query, mined in zip(candidates, self._mine(tmp_path, candidates), strict=True):
            wrong = set(mined.negatives) & set(query.positives)
            rule(not wrong, "a positive is never a negative", f"{sorted(wrong)} of query {query.query_id}")

    def test_no_document_twice(self, tmp_path: Path) -> None:
        plain = self._query(1)
        twice = {
            label: RankedList([doc_id for doc_id in item.doc_ids for _ in range(2)], np.repeat(item.scores, 2))
            for label, item in plain.hits.items()
        }
        repeated = Candidates("twice", plain.positives, twice, plain.doc_ids, plain.duplicates)
        for mined in self._mine(tmp_path, [*self.candidates(), repeated]):
            many = sorted({doc_id for doc_id in mined.negatives if list(mined.negatives).count(doc_id) > 1})
            rule(not many, "a document is a query's negative once", f"{many} of query {mined.query_id}")

    def test_negatives_are_documents_of_the_collection(self, tmp_path: Path) -> None:
        for mined in self._mine(tmp_path, self.candidates()):
            unknown = set(mined.negatives) - set(_CORPUS)
            rule(not unknown, "negatives are ids of the lists or of the corpus", sorted(map(str, unknown)))

    def test_a_score_a_negative(self, tmp_path: Path) -> None:
        for mined in self._mine(tmp_path, self.candidates()):
            shape = np.shape(mined.scores)
            rule(shape == (len(mined.negatives),), "there are as many scores as negatives", f"{shape} scores")
            rule(getattr(mined.scores, "dtype", None) == np.float32, "scores are a float32 array", type(mined.scores))
            counts = [isinstance(count, int) and count >= 0 for count in mined.dropped.values()]
            rule(all(counts), "`dropped` counts what was left out, by reason", mined.dropped)

    def test_reported_drops_are_right(self, tmp_path: Path) -> None:
        queries = self.candidates()
        for query, mined in zip(queries, self._mine(tmp_path, queries), strict=True):
            if (drops := mined.drops) is not None:
                sizes = [len(drops.doc_ids), len(drops.ranks), len(drops.reasons), len(drops.scores)]
                rule(len(set(sizes)) == 1, "a dropped document has a rank, a reason and a score", sizes)
                listed = ["", *query.ranking.doc_ids[: drops.candidates]]
                there = [listed[rank] if 0 < rank < len(listed) else None for rank in drops.ranks.tolist()]
                text = "a dropped document stands at its rank among the candidates, counted from 1"
                rule(there == list(drops.doc_ids), text, f"{list(drops.doc_ids)} of query {query.query_id}")
                known = {doc_id: rank for rank, doc_id in enumerate(query.ranking.doc_ids, 1)}
                ranks = [known.get(doc_id, 0) for doc_id in mined.negatives]
                text = "`chosen` are the negatives' ranks in the list, 0 for those from elsewhere"
                rule(drops.chosen.tolist() == ranks, text, f"{drops.chosen.tolist()}, not {ranks}")

    def test_draws_depend_on_seed_and_query_only(self, tmp_path: Path) -> None:
        text = "what is mined for a query depends on (seed, query_id) only"
        check_independent(lambda some: [_plain(item) for item in self._mine(tmp_path, some)], self.candidates(), text)

    def test_short_and_empty_lists(self, tmp_path: Path) -> None:
        none, one = np.empty(0, np.float32), np.ones(1, np.float32)
        lists = {"no list": [], "a positive alone": ["d1"], "one document": ["d2"]}
        cases = [
            Candidates(name, ["d1"], {label: RankedList(ids, one[: len(ids)]) for label in self.runs}, _CORPUS[:4])
            for name, ids in lists.items()
        ]
        cases.append(Candidates("no positives", [], {label: RankedList([], none) for label in self.runs}, []))
        if len(self.runs) == 1:
            cases.append(Candidates("no run", ["d1"], {}, _CORPUS[:2]))
        for case in cases:
            try:
                mined = self._mine(tmp_path, [case])
            except Exception as error:
                raise AssertionError(f"broken rule: short and empty lists are no error\n  found: {error!r}") from error
            rule(len(mined) == 1, "a query without candidates has an answer too, an empty one", case.query_id)
            many = len(mined[0].scores) == len(mined[0].negatives)
            rule(many, "there are as many scores as negatives", case.query_id)

    def test_candidates_stay_as_they_are(self, tmp_path: Path) -> None:
        candidates = self.candidates()
        text = "a miner does not change the lists it reads"
        check_unchanged(candidates, lambda: self._mine(tmp_path, candidates), text)


def _plain(mined: Negatives) -> Any:
    return list(mined.negatives), [str(score) for score in np.asarray(mined.scores).tolist()]


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
            tried: Any = SimpleNamespace(
                documents=lambda: map(Document, _DOCUMENTS, _DOCUMENTS.values()),
                splits=lambda: ("train",),
                queries=lambda split: map(Query, _QUERIES, _QUERIES.values()),
                answers=lambda split: (Answers(query_id, (text,)) for query_id, text in _QUERIES.items()),
                qrels=lambda split: (Judgement(query_id, f"d{row}", 1) for row, query_id in enumerate(_QUERIES)),
                notes=lambda: (),
            )
            write_collection(tried, stored, Silent())
        return MiningTexts(StoredCollection.open(stored), "train")

    def _reasons(self, folder: Path, candidates: Iterable[Candidates]) -> list[Mapping[str, str]]:
        (own := folder / "plugin").mkdir(exist_ok=True)
        return [dict(each) for each in self.make(own).reasons(iter(candidates), texts=self.texts(folder))]

    def test_one_answer_a_query_in_order(self, tmp_path: Path) -> None:
        candidates = self.candidates()
        reasons = self._reasons(tmp_path, candidates)
        rule(len(reasons) == len(candidates), "one mapping for each Candidates, in the same order", len(reasons))
        rule(not self._reasons(tmp_path, []), "no mapping where there are no Candidates")
        words = {word for each in reasons for word in each.values()}
        rule(all(isinstance(word, str) and word for word in words), "a reason is a word that is counted", words)

    def test_reasons_depend_on_the_query_only(self, tmp_path: Path) -> None:
        candidates = self.candidates()
        text = "the reasons for a query depend on that query and its lists only"
        check_independent(lambda some: self._reasons(tmp_path, some), candidates, text)

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of queries."""
        (own := tmp_path / "plugin").mkdir()
        candidates = lazily((self._query(0) for _ in range(self.lookahead)), "candidates", self.lookahead)
        next(iter(self.make(own).reasons(candidates, texts=self.texts(tmp_path))))

    def test_candidates_stay_as_they_are(self, tmp_path: Path) -> None:
        candidates = self.candidates()
        text = "a filter does not change the lists it reads"
        check_unchanged(candidates, lambda: self._reasons(tmp_path, candidates), text)

    def test_documents_that_were_drawn(self, tmp_path: Path) -> None:
        nan = np.full(4, np.nan, np.float32)
        drawn = Candidates("q1", ["d1"], {"drawn": RankedList(["d5", "d11", "d21", "d31"], nan)}, ())
        reasons = self._reasons(tmp_path, [drawn])
        rule(len(reasons) == 1, "documents without a score are no error")
