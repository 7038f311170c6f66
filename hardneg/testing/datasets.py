"""The contract of dataset loaders (`hardneg.protocols.DatasetLoader`) as tests."""

import time
from itertools import zip_longest
from pathlib import Path
from typing import ClassVar

from hardneg.formats.collection import write_collection
from hardneg.protocols import HintsQueries
from hardneg.records import Collection
from hardneg.runtime import Silent
from hardneg.testing.plugin_contract import PluginTests, rule


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
