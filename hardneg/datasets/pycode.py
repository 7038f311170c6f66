"""The embedded dataset of code: first sentences of docstrings as queries, the code that they describe as passages.

The other definitions of a class, or of a module, are near and wrong: each passage has siblings.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from hardneg.datasets.docstrings import installed_packages, read_docstrings
from hardneg.datasets.pydocs import PyDocsCollection
from hardneg.datasets.summaries import FromDocstrings, Summary, text_key
from hardneg.formats.python_code import Definition, code_of, first_sentence
from hardneg.records.types import Document, Membership, Query, Side
from hardneg.runtime.seeding import derive_seed


@dataclass(frozen=True)
class PyCode(FromDocstrings):
    """A retrieval problem that is on every machine: find the function or class that a sentence describes.

    The first sentence of a docstring is the query, the code without docstrings its passage, labelled 1. Passages come
    in groups: a class and its methods, or the functions of a module; all queries of a group are in one split. Code that
    is the same as another's, white space aside, is left out. A sentence that describes passages of several groups is no
    query, as nothing says which of them it asks for; the passages stay. Source files are parsed, never imported.

    Args:
        packages: top-level names of installed packages; `*` are all of this environment but editable ones.
        max_passages: the cap. Whole groups are kept; which, depends on their names alone, and a higher cap only adds.
        min_passage_words: shorter passages are left out.
        query_words: shortest and longest query.
        seed: changes the sample and the splits.
        dev_share: the part of the groups whose queries are for development.
        test_share: the part of the groups whose queries are for tests; the others are for training.
    """

    max_passages: int = 10_000
    min_passage_words: int = 10
    name: ClassVar[str] = "pycode"

    def load(self) -> "PyCodeCollection":
        """Reads and parses the sources: half a minute, of all packages some minutes.

        Raises:
            MissingDependency: a package is not installed.
            UsageError: no package, a dotted name, a cap under 1, or shares that leave a split nothing.
        """
        self._check()
        left_out: Counter[str] = Counter()
        definitions = list(self._definitions(left_out))
        kept = self._sample(definitions)
        left_out[f"passages above the cap of {self.max_passages}"] = len(definitions) - len(kept)
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for each in definitions:
            groups[text_key(each.query)].add(each.group)
        clear = [each for each in kept if len(groups[text_key(each.query)]) == 1]
        left_out["sentences that describe passages of several groups, which stay"] = len(kept) - len(clear)
        passages = [Document(each.doc_id, each.passage) for each in kept]
        by_split = self._queries(clear)
        return PyCodeCollection(passages, by_split, dict(left_out), {each.doc_id: each.group for each in kept})

    @property
    def _names(self) -> list[str]:
        chosen = set(self.packages)
        return sorted(chosen.difference("*").union(installed_packages()) if "*" in chosen else chosen)

    def _definitions(self, left_out: Counter[str]) -> Iterator["_Definition"]:
        files: set[bytes] = set()
        names: set[str] = set()
        codes: set[str] = set()
        for package in self._names:
            for docstring in read_docstrings(package, left_out, files):
                if not isinstance(docstring.node, Definition):
                    continue
                passage, first = code_of(docstring.node, docstring.file), first_sentence(docstring.text)
                definition = _Definition(docstring.name, " ".join(first.split()), passage, docstring.scope)
                code = "".join(passage.split())
                reason = self._unfit(first, definition)
                if not reason and code in codes:
                    reason = "definitions whose code is the same as another's"
                elif not reason and definition.doc_id in names:
                    reason = "further docstrings of one name"
                if reason:
                    left_out[reason] += 1
                else:
                    codes.add(code)
                    names.add(definition.doc_id)
                    yield definition

    def _unfit(self, first: str, definition: "_Definition") -> str | None:
        if len(definition.passage.split()) < self.min_passage_words:
            return f"definitions with under {self.min_passage_words} words of code"
        return Summary("sentence", first, definition.query).unfit(definition.passage, self.query_words)

    def _sample(self, definitions: Sequence["_Definition"]) -> list["_Definition"]:
        """Those of the first groups, in an order of their names and the seed, that the cap has room for; by id."""
        groups: defaultdict[str, list[_Definition]] = defaultdict(list)
        for each in definitions:
            groups[each.group].append(each)
        kept: list[_Definition] = []
        for group in sorted(groups, key=lambda group: derive_seed(self.seed, "sample", group)):
            if len(kept) + len(groups[group]) > self.max_passages:
                break
            kept += groups[group]
        return sorted(kept)

    def _queries(self, definitions: Sequence["_Definition"]) -> dict[str, list[tuple[Query, list[str]]]]:
        """The queries of each split with the ids of their passages, in the order of the first of these."""
        of_text: defaultdict[str, list[_Definition]] = defaultdict(list)
        for each in definitions:
            of_text[text_key(each.query)].append(each)
        by_split: dict[str, list[tuple[Query, list[str]]]] = {split: [] for split in self._shares.by_split}
        for first, *others in of_text.values():
            doc_ids = [first.doc_id, *(each.doc_id for each in others)]
            by_split[self._shares.split(first.group)].append((Query(first.doc_id, first.query), doc_ids))
        return by_split


@dataclass(frozen=True)
class PyCodeCollection(PyDocsCollection):
    """Passages, queries and judgements as `pydocs` has them, and groups."""

    group_of: Mapping[str, str]

    def groups(self, side: Side) -> Iterator[Membership]:
        """The class or module of each passage; of a query, that of the passages it asks for."""
        ids: Sequence[str] = [document.doc_id for document in self.passages]
        if side == "query":
            ids = [query.query_id for split in self.by_split.values() for query, _ in split]
        return (Membership(item_id, self.group_of[item_id]) for item_id in ids)


class _Definition(NamedTuple):
    doc_id: str
    query: str
    passage: str
    group: str
