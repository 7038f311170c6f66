"""The contract of writers of queries (`hardneg.protocols.QueryWriter`) as tests."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from hardneg.records import Document, Written
from hardneg.testing.plugin_contract import LOOKAHEAD, PluginTests, check_independent, lazily, rule

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
