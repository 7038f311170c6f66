"""The embedded questions with short answers: what is it called that this summary describes?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hardneg.data.answer_matching import has_answer
from hardneg.datasets.pydocs import PyDocs, PyDocsCollection
from hardneg.digest import digest
from hardneg.types import Answers, Document, Judgement, Query


@dataclass(frozen=True)
class PyNames:
    """The passages and queries of `pydocs`, with the names of the described objects as answers to the queries.

    An answer is a name without its module and class (`mean` of `numpy.mean`) that stands in the text of its own
    passage; about half the queries have one, the others have no answer.

    Args:
        packages: top-level names of installed packages.
        max_passages: the cap; which passages are kept depends on the ids alone, and a higher cap only adds some.
        seed: changes the sample and the splits.
    """

    packages: tuple[str, ...] = PyDocs.packages
    max_passages: int = PyDocs.max_passages
    seed: int = PyDocs.seed
    version: ClassVar[int] = 1

    def load(self) -> "PyNamesCollection":
        """Reads the sources (a few seconds) and holds what was found; raises what `pydocs` raises."""
        return PyNamesCollection(self._docs.load())

    def fingerprint(self) -> str:
        """That of `pydocs`, under another name."""
        return digest(["pynames", self.version, self._docs.fingerprint()])

    def size_hint(self) -> int:
        """The cap; the default packages reach it."""
        return self._docs.size_hint()

    def query_hint(self) -> Mapping[str, int]:
        """That of `pydocs`."""
        return self._docs.query_hint()

    @property
    def _docs(self) -> PyDocs:
        return PyDocs(packages=self.packages, max_passages=self.max_passages, seed=self.seed)


@dataclass(frozen=True)
class PyNamesCollection:
    """What `pydocs` found, and answers."""

    docs: PyDocsCollection

    def documents(self) -> Iterator[Document]:
        """The passages, without titles."""
        return self.docs.documents()

    def splits(self) -> Sequence[str]:
        """train, dev, test."""
        return self.docs.splits()

    def queries(self, split: str) -> Iterator[Query]:
        """The summaries."""
        return self.docs.queries(split)

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Relevance 1 for each passage whose summary is the query."""
        return self.docs.qrels(split)

    def answers(self, split: str) -> Iterator[Answers]:
        """The last parts of the names of the passages that a summary belongs to, where they stand in them."""
        texts = {document.doc_id: document.text for document in self.docs.passages}
        for query, doc_ids in self.docs.by_split[split]:
            names = {doc_id: doc_id.rpartition(".")[2] for doc_id in doc_ids}
            told = [name for doc_id, name in names.items() if has_answer(texts[doc_id], [name])]
            yield Answers(query.query_id, tuple(dict.fromkeys(told)))

    def notes(self) -> Sequence[str]:
        """What `pydocs` left out."""
        return self.docs.notes()
