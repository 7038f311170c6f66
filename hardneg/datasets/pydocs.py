"""The embedded dataset `pydocs`: summaries of docstrings of installed packages as queries, the rest as passages."""

import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hardneg.datasets.docstrings import installed_packages, package_version, read_docstrings
from hardneg.records.errors import UsageError
from hardneg.records.types import Document, Judgement, Query
from hardneg.runtime.seeding import FIXED, derive_seed
from hardneg.store.digest import digest
from hardneg.store.identity import options_in_key

_UNDERLINE = re.compile(r"^[-=~^*]{3,}$", re.MULTILINE)
_SIGNATURE = re.compile(r"^[\w.]+ ?\(.*\)( ?->.*)?$|->")


class SplitShares(NamedTuple):
    """The parts of the queries that are for development and for tests; the others are for training."""

    dev: float
    test: float
    seed: int

    @property
    def by_split(self) -> dict[str, float]:
        """The share of each split."""
        return {"train": 1 - self.dev - self.test, "dev": self.dev, "test": self.test}

    def split(self, item_id: str) -> str:
        """The split of an id; it depends on nothing else, and one in `test` stays there under a larger share."""
        share = derive_seed(self.seed, "split", item_id) / 2**64
        if share < self.test:
            return "test"
        return "dev" if share < self.test + self.dev else "train"


class Entry(NamedTuple):
    """A summary and its passage; the queries of a group are in one split."""

    doc_id: str
    query: str
    passage: str
    group: str


_LATER: frozenset[str] = frozenset({"dev_share", "test_share"})


@dataclass(frozen=True)
class PyDocs:
    """A retrieval problem that is on every machine: find the docstring that a one-line summary belongs to.

    A docstring's first paragraph is the query, the rest is its passage, labelled 1. Passages whose summaries
    are the same text are all relevant to it, and the query stands once. Near-duplicates (`numpy.mean`,
    `DataFrame.mean`) stay: they are the hard negatives. Source files are parsed, never imported.

    Args:
        packages: top-level names of installed packages; `*` are all of this environment but editable ones.
        max_passages: the cap; which passages are kept depends on the ids alone, and a higher cap only adds some.
        min_passage_words: shorter passages are left out.
        query_words: shortest and longest query.
        seed: changes the sample and the splits.
        dev_share: the part of the queries that is for development.
        test_share: the part of the queries that is for tests; the others are for training.
    """

    packages: tuple[str, ...] = ("numpy", "scipy", "pandas", "sklearn", "matplotlib", "networkx")
    max_passages: int = 6000
    min_passage_words: int = 20
    query_words: tuple[int, int] = (3, 40)
    seed: int = FIXED
    dev_share: float = 0.055
    test_share: float = 0.12
    name: ClassVar[str] = "pydocs"
    version: ClassVar[int] = 1
    later: ClassVar[frozenset[str]] = _LATER

    def load(self) -> "PyDocsCollection":
        """Reads the sources (a few seconds) and holds what was found.

        Raises:
            MissingDependency: a package is not installed.
            UsageError: no package, a dotted name, a cap under 1, or shares that leave a split nothing.
        """
        return PyDocsCollection(*self._parts())

    def fingerprint(self) -> str:
        """A digest of the packages' versions (or their sources), the options and Python's version."""
        versions = [[package, package_version(package)] for package in self._names]
        return digest([self.name, self.version, options_in_key(self), versions, list(sys.version_info[:2])])

    def size_hint(self) -> int:
        """The cap; the default packages reach it."""
        return self.max_passages

    def query_hint(self) -> Mapping[str, int]:
        """Each split's share of the cap; some summaries are no query of their own."""
        return {split: round(share * self.max_passages) for split, share in self._shares.by_split.items()}

    @property
    def _names(self) -> list[str]:
        chosen = set(self.packages)
        return sorted(chosen.difference("*").union(installed_packages()) if "*" in chosen else chosen)

    @property
    def _shares(self) -> SplitShares:
        return SplitShares(self.dev_share, self.test_share, self.seed)

    def _parts(self) -> tuple[list[Document], dict[str, list[tuple[Query, list[str]]]], dict[str, int], dict[str, str]]:
        """Passages by id, queries with the ids of their passages by split, counts of what is left out, and groups."""
        if not self.packages or self.max_passages < 1:
            raise UsageError(f"{self.name}: give at least one package, and a max_passages of 1 or more")
        if min(self._shares.by_split.values()) <= 0:
            raise UsageError(f"{self.name}: give a dev_share and a test_share above 0, and below 1 together")
        left_out: Counter[str] = Counter()
        entries = list(self._entries(left_out))
        kept = self._sample(entries)
        left_out[f"passages above the cap of {self.max_passages}"] = len(entries) - len(kept)
        same: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in self._clear(entries, kept, left_out):
            same[text_key(entry.query)].append(entry)
        by_split: dict[str, list[tuple[Query, list[str]]]] = {split: [] for split in self._shares.by_split}
        for first, *others in sorted(same.values(), key=lambda alike: alike[0].doc_id):
            doc_ids = sorted([first.doc_id, *(entry.doc_id for entry in others)])
            by_split[self._shares.split(first.group)].append((Query(first.doc_id, first.query), doc_ids))
        passages = sorted(Document(entry.doc_id, entry.passage) for entry in kept)
        return passages, by_split, dict(left_out), {entry.doc_id: entry.group for entry in kept}

    def _entries(self, left_out: Counter[str]) -> Iterator[Entry]:
        files: set[bytes] = set()
        known: set[tuple[str, str]] = set()
        short = f"docstrings with under {self.min_passage_words} words after the first paragraph"
        for package in self._names:
            for docstring in read_docstrings(package, left_out, files):
                first, *rest = re.split(r"\n[ \t]*\n", docstring.text.strip(), maxsplit=1)
                query, passage = " ".join(first.split()), " ".join("".join(rest).split())
                reason = self._unfit("paragraph", first, passage, short)
                if not reason and (text_key(query), passage) in known:
                    reason = "docstrings that are the same as another"
                if reason:
                    left_out[reason] += 1
                else:
                    known.add((text_key(query), passage))
                    yield Entry(docstring.name, query, passage, docstring.name)

    def _unfit(self, part: str, source: str, passage: str, short: str) -> str | None:
        """Why the first `part` of a docstring cannot be the query of a passage; None where it can."""
        query, (least, most) = " ".join(source.split()), self.query_words
        if len(passage.split()) < self.min_passage_words:
            return short
        if not least <= len(query.split()) <= most:
            return f"docstrings whose first {part} has not {least} to {most} words"
        if source.startswith("..") or _UNDERLINE.search(source) or _SIGNATURE.search(query):
            return "docstrings that start with a heading, a directive or a signature"
        if text_key(query) in " ".join(passage.split()).casefold():
            return f"docstrings that repeat their first {part}"
        return None

    def _sample(self, entries: list[Entry]) -> list[Entry]:
        order = sorted(entries, key=lambda entry: derive_seed(self.seed, "sample", entry.doc_id))
        return order[: self.max_passages]

    def _clear(self, entries: list[Entry], kept: list[Entry], left_out: Counter[str]) -> list[Entry]:
        """Those whose summary can be a query."""
        return kept


@dataclass(frozen=True)
class PyDocsCollection:
    """Passages ordered by id; queries and judgements by split, in the order of the query ids."""

    passages: Sequence[Document]
    by_split: dict[str, list[tuple[Query, list[str]]]]
    left_out: dict[str, int]
    group_of: Mapping[str, str]

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


def text_key(text: str) -> str:
    """The same for two queries that differ in case, or in the punctuation at their ends."""
    return text.casefold().rstrip(" .:")
