"""Datasets from docstrings of installed packages: `pycode` (find the code) and `pynames` (find the name)."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import ClassVar, Literal

from hardneg.plugin import installed_docs, records, stores, texts

Side = Literal["document", "query"]


@dataclass(frozen=True)
class PyNames(installed_docs.PyDocs):
    """The passages and queries of `pydocs`, with the names of the described objects as answers.

    An answer is a name without module and class (`mean` for `numpy.mean`) that occurs in the text of its own passage;
    about half of the queries have one. The options are the same as for `pydocs`.
    """

    name: ClassVar[str] = "pynames"
    later: ClassVar[frozenset[str]] = frozenset({"dev_share", "min_passage_words", "query_words", "test_share"})

    def load(self) -> "PyNamesCollection":
        """Read the sources, which takes a few seconds; raises the same errors as `pydocs`."""
        return PyNamesCollection(*self._parts())

    def fingerprint(self) -> str:
        """Return a digest of the name, the version, and the fingerprint of `pydocs` with the same options."""
        return stores.digest([self.name, self.version, installed_docs.PyDocs(**asdict(self)).fingerprint()])


@dataclass(frozen=True)
class PyNamesCollection(installed_docs.PyDocsCollection):
    """The collection of `pydocs` with answers."""

    def answers(self, split: str) -> Iterator[records.Answers]:
        """Yield each query's answers: the last part of each relevant passage's name, if that passage contains it."""
        contents = {document.doc_id: document.text for document in self.passages}
        for query, doc_ids in self.by_split[split]:
            names = {doc_id: doc_id.rpartition(".")[2] for doc_id in doc_ids}
            told = [name for doc_id, name in names.items() if texts.answer_spans(contents[doc_id], [name])]
            yield records.Answers(query.query_id, tuple(dict.fromkeys(told)))


@dataclass(frozen=True)
class PyCode(installed_docs.PyDocs):
    """An offline dataset in which queries are sentences that describe a function or class, and passages are code.

    The first sentence of a docstring is the query; the code without docstrings is its passage, labelled 1. Passages
    have groups: a class and its methods, or the functions of a module. All queries of a group are in one split. Code
    that differs from other code only in white space is left out. A sentence that describes passages of several groups
    is not used as a query, because it is ambiguous, but the passages stay. Source files are parsed, never imported.
    The other options are the same as for `pydocs`.

    Args:
        max_passages: maximum number; whole groups are sampled by name, so a higher maximum only adds groups.
        dev_share: the share of groups with queries in the split dev.
        test_share: the share of groups with queries in the split test; the other groups are in train.
    """

    max_passages: int = 10_000
    min_passage_words: int = 10
    name: ClassVar[str] = "pycode"
    later: ClassVar[frozenset[str]] = frozenset()

    def load(self) -> "PyCodeCollection":
        """Parse the sources, which takes half a minute or more; raises the same errors as `pydocs`."""
        return PyCodeCollection(*self._parts())

    def _entries(self, left_out: Counter[str]) -> Iterator[installed_docs.Entry]:
        files, names, codes = set[bytes](), set[str](), set[str]()
        short = f"definitions with fewer than {self.min_passage_words} words of code"
        for package in self._names:
            for docstring in installed_docs.read_docstrings(package, left_out, files):
                if not isinstance(docstring.node, installed_docs.Definition):
                    continue
                passage = installed_docs.code_of(docstring.node, docstring.file)
                first = installed_docs.first_sentence(docstring.text)
                code = "".join(passage.split())
                reason = self._unfit("sentence", first, passage, short)
                if not reason and code in codes:
                    reason = "definitions with the same code as another"
                elif not reason and docstring.name in names:
                    reason = "docstrings with a duplicate name"
                if reason:
                    left_out[reason] += 1
                    continue
                codes.add(code)
                names.add(docstring.name)
                yield installed_docs.Entry(docstring.name, " ".join(first.split()), passage, docstring.scope)

    def _sample(self, entries: list[installed_docs.Entry]) -> list[installed_docs.Entry]:
        """Return the definitions of groups in a seeded order, up to the maximum, sorted by id."""
        groups: defaultdict[str, list[installed_docs.Entry]] = defaultdict(list)
        for each in entries:
            groups[each.group].append(each)
        kept: list[installed_docs.Entry] = []
        for group in sorted(groups, key=self._drawn):
            if len(kept) + len(groups[group]) > self.max_passages:
                break
            kept += groups[group]
        return sorted(kept)

    def _clear(
        self, entries: list[installed_docs.Entry], kept: list[installed_docs.Entry], left_out: Counter[str]
    ) -> list[installed_docs.Entry]:
        groups: defaultdict[str, set[str]] = defaultdict(set)
        for each in entries:
            groups[installed_docs.text_key(each.query)].add(each.group)
        clear = [each for each in kept if len(groups[installed_docs.text_key(each.query)]) == 1]
        left_out["ambiguous sentences (for passages of several groups, which stay)"] = len(kept) - len(clear)
        return clear


@dataclass(frozen=True)
class PyCodeCollection(installed_docs.PyDocsCollection):
    """The collection of `pycode`: passages of code, queries, judgements, and groups of passages and of queries."""

    def groups(self, side: Side) -> Iterator[records.Membership]:
        """Return the group of each document or query: the class or module of the passage, or of a query's passages."""
        ids: Sequence[str] = [document.doc_id for document in self.passages]
        if side == "query":
            ids = [query.query_id for split in self.by_split.values() for query, _ in split]
        return (records.Membership(item_id, self.group_of[item_id]) for item_id in ids)
