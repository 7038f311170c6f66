"""Contract tests for dataset loaders, query writers, miners and filters."""

import time
from collections.abc import Iterable, Mapping
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.mining.filters import MiningTexts
from hardneg.protocols import HintsQueries
from hardneg.records import Candidates, Collection, Document, Negatives, RankedList, Written, types
from hardneg.runtime import Silent, generator
from hardneg.testing.plugins import LOOKAHEAD, PluginTests, check_independent, check_unchanged, lazily, rule

_CORPUS = [f"d{row}" for row in range(400)]
_SEED = 7


class DatasetTests(PluginTests):
    """Tests of a dataset loader. Set `plugin`, or override `write` and let `make` return a loader for its folder.

    Override `change` to test that the fingerprint changes with the content. `seconds` limits the total time of
    `size_hint` and, if the loader has it, `query_hint`.
    """

    seconds: ClassVar[float] = 1.0

    def write(self, folder: Path) -> None:
        """Write a small dataset to the empty `folder`. By default, write nothing: the loader reads no files."""

    def change(self, folder: Path) -> None:
        """Change the content that `write` wrote to `folder`; without an override, the fingerprint test is skipped."""
        import pytest

        pytest.skip("override `change` to test that the fingerprint changes with the content")

    def _load(self, folder: Path) -> Collection:
        self.write(folder)
        collection: Collection = self.make(folder).load()
        return collection

    def test_documents_stream_twice_the_same(self, tmp_path: Path) -> None:
        collection = self._load(tmp_path)
        once = iter(collection.documents())
        rule(once is not iter(collection.documents()), "each call of `documents` starts a new pass")
        count, missing = 0, object()
        for one, two in zip_longest(once, collection.documents(), fillvalue=missing):
            rule(one == two, f"two passes return the same documents (row {count})", f"{one!r:.80}, {two!r:.80}")
            count += 1
        rule(count > 0, "the source has documents")

    def test_ids_are_unique_words(self, tmp_path: Path) -> None:
        collection = self._load(tmp_path)
        ids = {"documents": [item.doc_id for item in collection.documents()]}
        ids |= {f"queries of {split}": [q.query_id for q in collection.queries(split)] for split in collection.splits()}
        for what, names in ids.items():
            wrong = [name for name in names if not isinstance(name, str) or name.split() != [name]]
            rule(not wrong, f"ids of {what} are non-empty strings without white space", repr(wrong[:3]))
            repeated = len(names) - len(set(names))
            rule(not repeated, f"ids of {what} are unique", f"{repeated} repeated")

    def test_qrels_name_known_ids(self, tmp_path: Path) -> None:
        collection = self._load(tmp_path)
        documents = {item.doc_id for item in collection.documents()}
        splits = list(collection.splits())
        rule(bool(splits) and len(set(splits)) == len(splits), "`splits` lists one or more splits, each once", splits)
        for split in splits:
            queries, judged = {query.query_id for query in collection.queries(split)}, list(collection.qrels(split))
            rule(bool(queries) and bool(judged), f"split {split} has queries and judgements")
            strange = {item.query_id for item in judged} - queries
            rule(not strange, f"judgements of {split} refer to queries of that split", sorted(strange)[:3])
            strange = {item.doc_id for item in judged} - documents
            rule(not strange, f"judgements of {split} refer to documents of the corpus", sorted(strange)[:3])
            whole = all(isinstance(item.relevance, int) for item in judged)
            rule(whole, f"relevance in {split} is a whole number")

    def test_the_fingerprint_names_the_content(self, tmp_path: Path) -> None:
        self.write(tmp_path)
        before = self.make(tmp_path).fingerprint()
        rule(isinstance(before, str) and bool(before), "a fingerprint is a non-empty string", repr(before))
        rule(self.make(tmp_path).fingerprint() == before, "the same source has the same fingerprint")
        self.change(tmp_path)
        plugin = self.make(tmp_path)
        rule(plugin.fingerprint() != before, "the fingerprint changes with the content", before)

    def test_size_hint_is_cheap(self, tmp_path: Path) -> None:
        self.write(tmp_path)
        spent = float("inf")
        for _ in range(3):  # a busy machine may be late once
            plugin = self.make(tmp_path)
            started = time.monotonic()
            hint = plugin.size_hint()
            hints = plugin.query_hint() if isinstance(plugin, HintsQueries) else {}
            spent = min(spent, time.monotonic() - started)
            if spent <= self.seconds:
                break
        splits = plugin.load().splits() if hints else []
        counts = all(split in splits and type(count) is int and count >= 0 for split, count in hints.items())
        rule(counts, "`query_hint` maps splits to whole numbers of queries", repr(hints))
        rule(type(hint) is int and hint >= 0, "`size_hint` returns a whole number, 0 if unknown", repr(hint))
        rule(spent <= self.seconds, f"hints take at most {self.seconds} s, without reading texts", f"{spent:.1f} s")

    def test_is_stored(self, tmp_path: Path) -> None:
        (tmp_path / "source").mkdir()
        collection = self._load(tmp_path / "source")
        write_collection(collection, tmp_path / "stored", Silent())
        notes = list(collection.notes())
        rule(all(isinstance(note, str) for note in notes), "notes are strings", notes)


_NOUNS = ("river", "harbor", "bridge", "tower", "garden", "market", "castle", "meadow")


class WriterTests(PluginTests):
    """Tests of a query writer. Set `plugin`; `lookahead` limits the documents read before the first answer."""

    lookahead: ClassVar[int] = LOOKAHEAD

    def documents(self) -> list[Document]:
        """Return twelve titled documents of five sentences, one document of one word, and one empty document."""
        return [*map(self._document, range(12)), Document("short", "word"), Document("empty", "")]

    def _document(self, number: int) -> Document:
        names = [(_NOUNS[(number + step) % 8], _NOUNS[(number + 3 * step) % 8]) for step in range(1, 6)]
        text = " ".join(f"The {one} is by the {other} {number}." for one, other in names)
        return Document(f"d{number}", text, f"About the {_NOUNS[number % 8]} {number}")

    def _written(self, folder: Path, documents: Iterable[Document], count: int = 2, seed: int = _SEED) -> list[Written]:
        (folder / "plugin").mkdir(exist_ok=True)
        return list(self.make(folder / "plugin").write(iter(documents), count=count, seed=seed))

    def test_one_answer_a_document_in_order(self, tmp_path: Path) -> None:
        documents = self.documents()
        written = self._written(tmp_path, documents)
        ids = [each.document.doc_id for each in written]
        rule(ids == [each.doc_id for each in documents], "one Written for each document, in the same order", ids)
        rule(not self._written(tmp_path, []), "no Written is returned if there are no documents")
        rule(any(each.queries for each in written), "at least one document gets a query")
        texts = [text for each in written for text in each.queries]
        wrong = [text for text in texts if not isinstance(text, str) or not text.strip()]
        rule(not wrong, "a query is a non-blank string", repr(wrong[:3]))
        for count in (1, 3):
            most = max(len(each.queries) for each in self._written(tmp_path, documents, count))
            rule(most <= count, f"count={count} returns at most {count} queries per document", most)

    def test_queries_depend_on_seed_and_document_only(self, tmp_path: Path) -> None:
        text = "a document's queries depend only on the document and the seed"
        check_independent(lambda some: self._written(tmp_path, some), self.documents(), text, "documents")

    def test_a_document_keeps_words(self, tmp_path: Path) -> None:
        lost = [each for each in self._written(tmp_path, self.documents()) if each.queries and not each.document.text]
        rule(not lost, "a document with queries keeps some of its text", repr(lost[:2]))

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of documents."""
        (own := tmp_path / "plugin").mkdir()
        documents = lazily(map(self._document, range(self.lookahead)), "documents", self.lookahead)
        next(iter(self.make(own).write(documents, count=1, seed=_SEED)))


class MinerTests(PluginTests):
    """Tests of a miner. Set `plugin`; `runs` are the labels of the ranked lists it reads, its main list first.

    `lookahead` is the number of queries that the miner may read before its first answer. Override `candidates` for a
    miner that needs other lists.
    """

    runs: ClassVar[tuple[str, ...]] = ("run",)
    lookahead: ClassVar[int] = LOOKAHEAD

    def candidates(self) -> list[Candidates]:
        """Return twelve queries with ranked lists of 0 to 60 documents; some positives rank high, some are missing."""
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
        same = all(list(a.positives) == list(b.positives) for a, b in zip(candidates, mined, strict=True))
        rule(same, "a query's positives are returned unchanged")
        rule(not self._mine(tmp_path, []), "no Negatives are returned if there are no Candidates")

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
            rule(not many, "a document is a negative of a query at most once", f"{many} of query {mined.query_id}")

    def test_negatives_are_documents_of_the_collection(self, tmp_path: Path) -> None:
        for mined in self._mine(tmp_path, self.candidates()):
            unknown = set(mined.negatives) - set(_CORPUS)
            rule(not unknown, "negatives are ids from the lists or from the corpus", sorted(map(str, unknown)))

    def test_a_score_a_negative(self, tmp_path: Path) -> None:
        for mined in self._mine(tmp_path, self.candidates()):
            shape = np.shape(mined.scores)
            rule(shape == (len(mined.negatives),), "each negative has one score", f"{shape} scores")
            rule(getattr(mined.scores, "dtype", None) == np.float32, "scores are a float32 array", type(mined.scores))
            counts = [isinstance(count, int) and count >= 0 for count in mined.dropped.values()]
            rule(all(counts), "`dropped` maps reasons to numbers of dropped documents", mined.dropped)

    def test_reported_drops_are_right(self, tmp_path: Path) -> None:
        queries = self.candidates()
        for query, mined in zip(queries, self._mine(tmp_path, queries), strict=True):
            if (drops := mined.drops) is not None:
                sizes = [len(drops.doc_ids), len(drops.ranks), len(drops.reasons), len(drops.scores)]
                rule(len(set(sizes)) == 1, "each dropped document has a rank, a reason and a score", sizes)
                listed = ["", *query.ranking.doc_ids[: drops.candidates]]
                there = [listed[rank] if 0 < rank < len(listed) else None for rank in drops.ranks.tolist()]
                text = "`ranks` are the ranks of dropped documents among the candidates, counted from 1"
                rule(there == list(drops.doc_ids), text, f"{list(drops.doc_ids)} of query {query.query_id}")
                known = {doc_id: rank for rank, doc_id in enumerate(query.ranking.doc_ids, 1)}
                ranks = [known.get(doc_id, 0) for doc_id in mined.negatives]
                text = "`chosen` has the rank of each negative in the list, or 0 if it is not listed"
                rule(drops.chosen.tolist() == ranks, text, f"{drops.chosen.tolist()}, not {ranks}")

    def test_draws_depend_on_seed_and_query_only(self, tmp_path: Path) -> None:
        text = "the negatives of a query depend only on the seed, its id and its lists"
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
                raise AssertionError(
                    f"broken rule: short and empty lists are not an error\n  found: {error!r}"
                ) from error
            rule(len(mined) == 1, "a query without candidates gets one Negatives, which may be empty", case.query_id)
            many = len(mined[0].scores) == len(mined[0].negatives)
            rule(many, "each negative has one score", case.query_id)

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
    """Tests of a filter. Set `plugin`; `lookahead` is the number of queries it may read before its first answer.

    The collection has 40 documents of four words, `d0` to `d39`, and six queries of one word, `q0` to `q5`; the word is
    also the answer.
    """

    lookahead: ClassVar[int] = LOOKAHEAD

    def candidates(self) -> list[Candidates]:
        """Return six queries, each with two ranked lists of 0 to 20 documents that may contain its positive."""
        return [self._query(number) for number in range(len(_QUERIES))]

    def _query(self, number: int) -> Candidates:
        length, doc_ids = (20, 7, 3, 0)[number % 4], list(_DOCUMENTS)
        listed = [doc_ids[(3 * position + number) % len(doc_ids)] for position in range(length)]
        scores = np.linspace(1, 0, length, dtype=np.float32)
        hits = {"run": RankedList(listed, scores), "other": RankedList(listed[::-2], scores[::2].copy())}
        return Candidates(f"q{number}", [f"d{number}"], hits, doc_ids)

    def texts(self, folder: Path) -> MiningTexts:
        """Return the texts that a filter may read, from a collection that the first call stores in `folder`."""
        stored = folder / "collection"
        if not stored.exists():
            tried: Any = SimpleNamespace(
                documents=lambda: map(Document, _DOCUMENTS, _DOCUMENTS.values()),
                splits=lambda: ("train",),
                queries=lambda split: map(types.Query, _QUERIES, _QUERIES.values()),
                answers=lambda split: (types.Answers(query_id, (text,)) for query_id, text in _QUERIES.items()),
                qrels=lambda split: (types.Judgement(query_id, f"d{row}", 1) for row, query_id in enumerate(_QUERIES)),
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
        rule(not self._reasons(tmp_path, []), "no mapping is returned if there are no Candidates")
        words = {word for each in reasons for word in each.values()}
        rule(all(isinstance(word, str) and word for word in words), "a reason is a non-empty string", words)

    def test_reasons_depend_on_the_query_only(self, tmp_path: Path) -> None:
        candidates = self.candidates()
        text = "the reasons for a query depend only on the query and its lists"
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
        rule(len(reasons) == 1, "documents without a score are not an error")
