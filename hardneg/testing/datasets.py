"""The contracts of dataset loaders (`hardneg.protocols.DatasetLoader`) and of writers of queries as tests."""

import time
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from hardneg.formats.collection import write_collection
from hardneg.protocols import HintsQueries
from hardneg.records import Collection, Document, Written
from hardneg.runtime import Silent
from hardneg.testing.plugin_contract import LOOKAHEAD, PluginTests, check_independent, lazily, rule


class DatasetTests(PluginTests):
    """Set `plugin`; or override `write`, and `make` to return the loader of that folder.

    Override `change` to change the source's content in a way that is to be seen. `seconds` is how long `size_hint`,
    with `query_hint` where there is one, may take.
    """

    seconds: ClassVar[float] = 1.0

    def write(self, folder: Path) -> None:
        """Write a small source into the empty `folder`; nothing for a loader without files."""

    def change(self, folder: Path) -> None:
        """Change the content that `write` wrote into `folder`; without it that test is skipped."""
        import pytest

        pytest.skip("override `change` to test that another content has another fingerprint")

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
            rule(one == two, f"two passes over the documents are the same, at row {count}", f"{one!r:.80}, {two!r:.80}")
            count += 1
        rule(count > 0, "the tested source has documents")

    def test_ids_are_unique_words(self, tmp_path: Path) -> None:
        collection = self._load(tmp_path)
        ids = {"documents": [item.doc_id for item in collection.documents()]}
        ids |= {f"queries of {split}": [q.query_id for q in collection.queries(split)] for split in collection.splits()}
        for what, names in ids.items():
            wrong = [name for name in names if not isinstance(name, str) or name.split() != [name]]
            rule(not wrong, f"ids of {what} are text without white space", repr(wrong[:3]))
            repeated = len(names) - len(set(names))
            rule(not repeated, f"ids of {what} are unique", f"{repeated} repeated")

    def test_qrels_name_known_ids(self, tmp_path: Path) -> None:
        collection = self._load(tmp_path)
        documents = {item.doc_id for item in collection.documents()}
        splits = list(collection.splits())
        rule(bool(splits) and len(set(splits)) == len(splits), "there are splits, each named once", splits)
        for split in splits:
            queries, judged = {query.query_id for query in collection.queries(split)}, list(collection.qrels(split))
            rule(bool(queries) and bool(judged), f"split {split} has queries and judgements")
            strange = {item.query_id for item in judged} - queries
            rule(not strange, f"judgements of {split} name queries of that split", sorted(strange)[:3])
            strange = {item.doc_id for item in judged} - documents
            rule(not strange, f"judgements of {split} name documents of the corpus", sorted(strange)[:3])
            whole = all(isinstance(item.relevance, int) for item in judged)
            rule(whole, f"relevance in {split} is a whole number")

    def test_the_fingerprint_names_the_content(self, tmp_path: Path) -> None:
        self.write(tmp_path)
        before = self.make(tmp_path).fingerprint()
        rule(isinstance(before, str) and bool(before), "a fingerprint is a text", repr(before))
        rule(self.make(tmp_path).fingerprint() == before, "the same source has the same fingerprint")
        self.change(tmp_path)
        plugin = self.make(tmp_path)
        rule(plugin.fingerprint() != before, "another content has another fingerprint", before)

    def test_size_hint_is_cheap(self, tmp_path: Path) -> None:
        self.write(tmp_path)
        spent = float("inf")
        for _ in range(3):  # a machine that is busy may be late once
            plugin = self.make(tmp_path)
            begun = time.monotonic()
            hint = plugin.size_hint()
            hints = plugin.query_hint() if isinstance(plugin, HintsQueries) else {}
            spent = min(spent, time.monotonic() - begun)
            if spent <= self.seconds:
                break
        splits = plugin.load().splits() if hints else []
        counts = all(split in splits and type(count) is int and count >= 0 for split, count in hints.items())
        rule(counts, "a query hint is a whole number for each split that it names", repr(hints))
        rule(type(hint) is int and hint >= 0, "a size hint is a whole number, 0 where it cannot be told", repr(hint))
        rule(spent <= self.seconds, f"a size hint takes at most {self.seconds} s: it reads no corpus", f"{spent:.1f} s")

    def test_is_stored(self, tmp_path: Path) -> None:
        (tmp_path / "source").mkdir()
        collection = self._load(tmp_path / "source")
        write_collection(collection, tmp_path / "stored", Silent())
        notes = list(collection.notes())
        rule(all(isinstance(note, str) for note in notes), "notes are lines of text", notes)


_WORDS = ("river", "harbor", "bridge", "tower", "garden", "market", "castle", "meadow")
_SEED = 5


class WriterTests(PluginTests):
    """Set `plugin`; `lookahead` is how many documents it may read before its first answer."""

    lookahead: ClassVar[int] = LOOKAHEAD

    def documents(self) -> list[Document]:
        """Twelve with a title and five sentences of six words, then one with one word, and an empty one."""
        return [*map(self._document, range(12)), Document("short", "word"), Document("empty", "")]

    def _document(self, number: int) -> Document:
        names = [(_WORDS[(number + step) % 8], _WORDS[(number + 3 * step) % 8]) for step in range(1, 6)]
        text = " ".join(f"The {one} is by the {other} {number}." for one, other in names)
        return Document(f"d{number}", text, f"About the {_WORDS[number % 8]} {number}")

    def _written(self, folder: Path, documents: Iterable[Document], count: int = 2, seed: int = _SEED) -> list[Written]:
        (folder / "plugin").mkdir(exist_ok=True)
        return list(self.make(folder / "plugin").write(iter(documents), count=count, seed=seed))

    def test_one_answer_a_document_in_order(self, tmp_path: Path) -> None:
        documents = self.documents()
        written = self._written(tmp_path, documents)
        ids = [each.document.doc_id for each in written]
        rule(ids == [each.doc_id for each in documents], "one Written for each document, in the same order", ids)
        rule(not self._written(tmp_path, []), "nothing is written without documents")
        rule(any(each.queries for each in written), "some of these documents have a query")
        texts = [text for each in written for text in each.queries]
        wrong = [text for text in texts if not isinstance(text, str) or not text.strip()]
        rule(not wrong, "a query is a text with words", repr(wrong[:3]))
        for count in (1, 3):
            most = max(len(each.queries) for each in self._written(tmp_path, documents, count))
            rule(most <= count, f"at most {count} queries a document where so many are wanted", most)

    def test_queries_depend_on_seed_and_document_only(self, tmp_path: Path) -> None:
        text = "what is written for a document depends on it and the seed only"
        check_independent(lambda some: self._written(tmp_path, some), self.documents(), text, "documents")

    def test_a_document_keeps_words(self, tmp_path: Path) -> None:
        lost = [each for each in self._written(tmp_path, self.documents()) if each.queries and not each.document.text]
        rule(not lost, "some of a document's text is left", repr(lost[:2]))

    def test_streams(self, tmp_path: Path) -> None:
        """Memory must not grow with the number of documents."""
        (own := tmp_path / "plugin").mkdir()
        documents = lazily(map(self._document, range(self.lookahead)), "documents", self.lookahead)
        next(iter(self.make(own).write(documents, count=1, seed=_SEED)))
