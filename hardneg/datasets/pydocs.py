"""The embedded datasets: docstrings of the libraries that hardneg depends on, as queries and passages.

And as questions with short answers: what is it called that this summary describes?
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hardneg.datasets.docstrings import read_docstrings
from hardneg.datasets.summaries import FromDocstrings, Summary, text_key
from hardneg.formats.answer_matching import has_answer
from hardneg.records.types import Answers, Document, Judgement, Query
from hardneg.runtime.seeding import derive_seed
from hardneg.store.digest import digest


@dataclass(frozen=True)
class PyDocs(FromDocstrings):
    """A retrieval problem that is on every machine: find the docstring that a one-line summary belongs to.

    A docstring's first paragraph is the query, the rest is its passage, labelled 1. Passages whose summaries
    are the same text are all relevant to it, and the query stands once. Near-duplicates (`numpy.mean`,
    `DataFrame.mean`) stay: they are the hard negatives. Source files are parsed, never imported.

    Args:
        packages: top-level names of installed packages.
        max_passages: the cap; which passages are kept depends on the ids alone, and a higher cap only adds some.
        min_passage_words: shorter passages are left out.
        query_words: shortest and longest query.
        seed: changes the sample and the splits.
        dev_share: the part of the queries that is for development.
        test_share: the part of the queries that is for tests; the others are for training.
    """

    name: ClassVar[str] = "pydocs"
    later: ClassVar[frozenset[str]] = frozenset({"dev_share", "test_share"})

    def load(self) -> "PyDocsCollection":
        """Reads the sources (a few seconds) and holds what was found.

        Raises:
            MissingDependency: a package is not installed.
            UsageError: no package, a dotted name, a cap under 1, or shares that leave a split nothing.
        """
        self._check()
        left_out: Counter[str] = Counter()
        entries = list(self._entries(left_out))
        entries.sort(key=lambda entry: derive_seed(self.seed, "sample", entry.doc_id))
        left_out[f"passages above the cap of {self.max_passages}"] = max(0, len(entries) - self.max_passages)
        return self._collect(entries[: self.max_passages], left_out)

    def _entries(self, left_out: Counter[str]) -> Iterator["_Entry"]:
        files: set[bytes] = set()
        known: set[tuple[str, str]] = set()
        for package in self._names:
            for docstring in read_docstrings(package, left_out, files):
                first, *rest = re.split(r"\n[ \t]*\n", docstring.text.strip(), maxsplit=1)
                entry = _Entry(docstring.name, " ".join(first.split()), " ".join("".join(rest).split()))
                same = (text_key(entry.query), entry.passage)
                reason = self._unfit(first, entry)
                if reason or same in known:
                    left_out[reason or "docstrings that are the same as another"] += 1
                else:
                    known.add(same)
                    yield entry

    def _unfit(self, first: str, entry: "_Entry") -> str | None:
        if len(entry.passage.split()) < self.min_passage_words:
            return f"docstrings with under {self.min_passage_words} words after the first paragraph"
        return Summary("paragraph", first, entry.query).unfit(entry.passage, self.query_words)

    def _collect(self, entries: list["_Entry"], left_out: dict[str, int]) -> "PyDocsCollection":
        groups: dict[str, list[_Entry]] = {}
        for entry in entries:
            groups.setdefault(text_key(entry.query), []).append(entry)
        by_split: dict[str, list[tuple[Query, list[str]]]] = {"train": [], "dev": [], "test": []}
        for group in sorted(groups.values(), key=lambda group: group[0].doc_id):
            first = group[0]
            query = Query(first.doc_id, first.query)
            by_split[self._shares.split(first.doc_id)].append((query, sorted(entry.doc_id for entry in group)))
        passages = sorted(Document(entry.doc_id, entry.passage) for entry in entries)
        return PyDocsCollection(passages, by_split, dict(left_out))


@dataclass(frozen=True)
class PyDocsCollection:
    """Passages ordered by id; queries and judgements by split, in the order of the query ids."""

    passages: Sequence[Document]
    by_split: dict[str, list[tuple[Query, list[str]]]]
    left_out: dict[str, int]

    def documents(self) -> Iterator[Document]:
        """The passages, without titles: an object's name would give the query away."""
        return iter(self.passages)

    def splits(self) -> Sequence[str]:
        """train, dev, test."""
        return list(self.by_split)

    def queries(self, split: str) -> Iterator[Query]:
        """The summaries; a query's id is the name of one object that it describes."""
        return (query for query, _ in self.by_split[split])

    def qrels(self, split: str) -> Iterator[Judgement]:
        """Relevance 1 for each passage whose summary is the query."""
        return (Judgement(query.query_id, doc_id, 1) for query, doc_ids in self.by_split[split] for doc_id in doc_ids)

    def notes(self) -> Sequence[str]:
        """How many files and docstrings were left out, by reason."""
        return [f"left out: {count} {reason}" for reason, count in sorted(self.left_out.items()) if count]


class _Entry(NamedTuple):
    doc_id: str
    query: str
    passage: str


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
        found = self._docs.load()
        return PyNamesCollection(found.passages, found.by_split, found.left_out)

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
class PyNamesCollection(PyDocsCollection):
    """What `pydocs` found, and answers."""

    def answers(self, split: str) -> Iterator[Answers]:
        """The last parts of the names of the passages that a summary belongs to, where they stand in them."""
        texts = {document.doc_id: document.text for document in self.passages}
        for query, doc_ids in self.by_split[split]:
            names = {doc_id: doc_id.rpartition(".")[2] for doc_id in doc_ids}
            told = [name for doc_id, name in names.items() if has_answer(texts[doc_id], [name])]
            yield Answers(query.query_id, tuple(dict.fromkeys(told)))
