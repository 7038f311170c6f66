"""Verb `write-queries`: queries written from the documents alone, as a collection to train and to measure on."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import Literal, NamedTuple, cast

import numpy as np
from pydantic import Field, model_validator

from hardneg.datasets.pydocs import SplitShares
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import Trait, WriterSettings
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import normalise
from hardneg.protocols import QueryWriter, SessionWriter
from hardneg.records import DataError, Document, Judgement, Membership, Query, Side, Written, counted
from hardneg.records.text import terms
from hardneg.runtime import SEED, derive_seed, drawn_order
from hardneg.stages.shared.context import Facts, StageContext
from hardneg.stages.shared.inputs import open_collection, open_corpus
from hardneg.stages.shared.stage_spec import RecipeView, Row, Sizes, StageSpec, source_of

_BLOCK = 1024
_NUMBERED = re.compile(r"\b(?:passage|paragraph|document|excerpt|text)\s*(?:no\.?|number|#)?\s*\(?\d", re.IGNORECASE)
_NO_WORD = re.compile(r"(?=.{5})(?:.*[/\\].*|(?=.*\d).*[^\W\d_].*)", re.DOTALL)
"""An id that no word of a text is: it has five characters, and is a path, or has a digit and a letter."""

NAMING = "queries left out that name their passage by its number"
COPIES = "queries left out as passages of several documents have nearly the same"
JOINED = "queries joined with nearly the same one of their document"
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]")
"""Characters that no query has: controls, halves of characters, and those that hide text or turn its direction."""


class Draft(NamedTuple):
    """A query as it was written: its id, its text, the document that it is of, and the group of that.

    A title that a document keeps is one too, without an id: it asks for that document in the same words.
    """

    query_id: str
    text: str
    doc_id: str
    group: str


class Kept(NamedTuple):
    """A query that stays, and all documents that it is relevant to, its own first; group: that of all of them."""

    query_id: str
    text: str
    doc_ids: Sequence[str]
    group: str


class WriteQueries(StageSpec):
    """Writes queries from the passages: a collection with splits train, dev and test, which other stages name.

    A query's id is `WRITER:DOC_ID:NUMBER`. The passages of the collection lack what their queries took out of them. It
    has none of the dataset's own queries. Of equal passages queries are written for the first, and relevant to all.
    """

    version = 4
    artifact_type = "collection"
    purpose = "write queries from the passages alone"
    needs_dataset = True
    stage: Literal["write-queries"]
    writers: WriterSettings = Field(
        description="Writers of queries; one of them, drawn, writes for a passage; a name, or {name: NAME, ...}."
    )
    per_passage: int = Field(1, gt=0, description="The most queries of a passage.")
    passages: int | None = Field(None, gt=0, description="Write for so many passages, drawn; by default for all.")
    dev_share: float = Field(0.1, ge=0, lt=1, description="The part of the documents whose queries are split dev.")
    test_share: float = Field(0.1, ge=0, lt=1, description="The part of the documents whose queries are split test.")
    split_by: Literal["group", "passage"] = Field(
        "group", description="What stays together in one split: a document's passages, or each passage alone."
    )
    seed: int = Field(SEED, description="For writers that draw, and for the splits.")

    @model_validator(mode="after")
    def _complete(self) -> "WriteQueries":
        names = [setting.name for setting in self.writers]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"writers: {twice[0]} is listed twice")
        if self.dev_share + self.test_share >= 1:
            raise ValueError("dev_share: leaves split train nothing; give less than 1 with test_share")
        return self

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), Trait.WRITTEN_QUERIES: recipe.name}

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        sources = (source_of(recipe.plugin(f"writers.{number}")) for number in range(len(self.writers)))
        return next(filter(None, sources), None)

    def estimate(self, sizes: Sizes) -> Row:
        return Row(sizes.documents, "passages", sizes.documents * 700)

    def collection_sizes(self, sizes: Sizes) -> Sizes:
        """As many queries as its options allow: a writer may write fewer, and none of some passages."""
        count = min(self.passages or sizes.documents, sizes.documents) * self.per_passage
        dev, test = (round(count * share) for share in (self.dev_share, self.test_share))
        return replace(sizes, splits={"train": count - dev - test, "dev": dev, "test": test})

    def make(self, context: "StageContext[WriteQueries]") -> Facts:
        """Writes the collection; facts: its counts, queries by writer, what these used, and what was left out.

        Raises:
            DataError: there are no documents, no query was written, or a split has none.
        """
        open_corpus(context)
        used: dict[str, dict[str, float]] = {setting.name: {} for setting in self.writers}
        with ExitStack() as stack:
            writers = {}
            for number, (name, counts) in enumerate(used.items()):
                plugin = context.plugins[f"writers.{number}"]
                if isinstance(plugin, SessionWriter):
                    plugin = stack.enter_context(plugin.writing(counts, context.device))
                writers[name] = cast(QueryWriter, plugin)
            writing = _Writing(context.name, self, open_collection(context.inputs["dataset"]), writers)
            facts = write_collection(writing, context.folder, context.progress)
        of_writers = {f"{name}: {what}": count for name, counts in used.items() for what, count in counts.items()}
        return {**facts, **writing.counts, **of_writers}


@dataclass(frozen=True)
class _Writing:
    """The collection as it is written: documents first, with which the queries come; then these by split.

    drafts: what was written. counts: what is told of it.
    """

    name: str
    spec: WriteQueries
    source: StoredCollection
    writers: Mapping[str, QueryWriter]
    drafts: list[Draft] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def documents(self) -> Iterator[Document]:
        spec, chosen, copies = self.spec, None, self._copies
        copied = dict[str, Document].fromkeys(copies.values())
        if spec.passages is not None:  # drawn by id: a larger number has those of a smaller one
            chosen = frozenset(drawn_order(spec.seed, "passage", self.source.corpus.doc_ids)[: spec.passages])
        documents = self.source.corpus.documents()
        written_for = mixed(self.writers, documents, spec.per_passage, spec.seed, chosen, copies)
        for writer, (queries, document) in written_for:
            if first := copied.get(copies.get(document.doc_id, "")):
                self.counts["passages that are copies of another"] += 1
                yield first._replace(doc_id=document.doc_id)
                continue
            yield document
            if document.doc_id in copied:
                copied[document.doc_id] = document
            if not writer:
                self.counts["passages without a query"] += chosen is None or document.doc_id in chosen
            for number, text in enumerate(queries, 1):
                self.counts[f"queries written by {writer}"] += 1
                query_id, group = f"{writer}:{document.doc_id}:{number}", self._part(document.doc_id)
                line = " ".join(text.split())
                seen = _UNSEEN.sub("", line).strip()
                self.counts["queries with characters that no text has, taken out"] += seen != line
                if seen:
                    self.drafts.append(Draft(query_id, seen, document.doc_id, group))

    @cached_property
    def _copies(self) -> dict[str, str]:
        return earlier_copies(self.source.corpus)

    @cached_property
    def _groups(self) -> dict[str, str]:
        return self.source.groups("document")

    def _part(self, doc_id: str) -> str:
        return self._groups.get(doc_id, doc_id) if self.spec.split_by == "group" else doc_id

    @cached_property
    def _by_split(self) -> dict[str, list[Kept]]:
        """The queries that stay. Raises DataError where a split has none."""
        spec = self.spec
        shares = SplitShares(spec.dev_share, spec.test_share, spec.seed)
        by_split: dict[str, list[Kept]] = {split: [] for split, share in shares.by_split.items() if share > 0}
        titled = self.source.corpus.titles()
        titles = (
            Draft("", title, doc_id, self._part(doc_id)) for doc_id, title in titled if doc_id not in self._copies
        )
        queries = kept(self.drafts, titles, self.counts)
        for query in with_repeats(queries, self.source.corpus, self._groups, self._copies):
            by_split[shares.split(query.group)].append(query)
        if not queries:
            counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items() if count)
            advice = "take other writers or more documents; `docstring` writes for Python files alone (`forms: [py]`)"
            writers = ", ".join(self.writers)
            raise DataError(f"{self.name}: no query stays of what {writers} wrote ({counts}); {advice}")
        if empty := [split for split, some in by_split.items() if not some]:
            by_document = spec.split_by == "group"
            groups = counted(len({query.group for query in queries}), "document" if by_document else "passage")
            problem = f"no query for split {' and '.join(empty)}: {counted(len(queries), 'query')} of {groups}"
            advice = "say `split_by: passage`, set" if by_document else "set"
            advice += " its share to 0, or take other writers or more documents"
            raise DataError(f"{self.name}: {problem} written; {advice}")
        return by_split

    def splits(self) -> Sequence[str]:
        shares = {"train": 1.0, "dev": self.spec.dev_share, "test": self.spec.test_share}
        return [split for split, share in shares.items() if share]

    def queries(self, split: str) -> Iterator[Query]:
        return (Query(query.query_id, query.text) for query in self._by_split[split])

    def qrels(self, split: str) -> Iterator[Judgement]:
        for query in self._by_split[split]:
            yield from (Judgement(query.query_id, doc_id, 1) for doc_id in query.doc_ids)

    def groups(self, side: Side) -> Iterator[Membership]:
        if side == "document":
            yield from (Membership(*pair) for pair in self._groups.items())
        elif self._groups:
            for query in (each for some in self._by_split.values() for each in some):
                yield Membership(query.query_id, self._groups.get(query.doc_ids[0], query.doc_ids[0]))

    def notes(self) -> Sequence[str]:
        """What was written, what was left out, and writers that could write for few of their passages."""
        written = {name: self.counts[f"queries written by {name}"] for name in self.writers}
        few = [name for name, count in written.items() if count < 0.1 * sum(written.values()) / len(written)]
        rare = [f"{name} can write for few of these passages: the other writers wrote in its place" for name in few]
        return [*(f"{name}: {count:,}" for name, count in self.counts.items() if count), *rare]


def mixed(
    writers: Mapping[str, QueryWriter],
    documents: Iterable[Document],
    count: int,
    seed: int,
    only: Container[str] | None = None,
    copies: Container[str] = (),
) -> Iterator[tuple[str, Written]]:
    """Each document with what one of the writers made of it, and that one's name; no name where none wrote a query.

    Which writer has the first turn at a document is drawn by the seed and its id; one that can write nothing leaves it
    to the next.

    Args:
        writers: by name.
        documents: in any order.
        count: the most queries of a document.
        seed: what is drawn by.
        only: the ids of the documents to write for; all where it is None.
        copies: those of documents with the text of an earlier one, for which nothing is written.
    """
    stream = iter(documents)
    while block := list(islice(stream, _BLOCK)):
        turns = [
            sorted(writers, key=lambda name: (derive_seed(seed, "writer", name, document.doc_id), name))
            for document in block
        ]
        results = [("", Written((), document)) for document in block]
        ids = enumerate(document.doc_id for document in block)
        wanted = [row for row, doc_id in ids if (only is None or doc_id in only) and doc_id not in copies]
        for turn in range(len(writers)):
            for name, writer in writers.items():
                rows = [row for row in wanted if turns[row][turn] == name and not results[row][0]]
                texts = writer.write((block[row] for row in rows), count=count, seed=seed)
                for row, written in zip(rows, texts, strict=True):
                    if written.queries:
                        results[row] = (name, written)
        yield from results


def kept(drafts: Iterable[Draft], titles: Iterable[Draft], left_out: Counter[str]) -> list[Kept]:
    """The queries that stay, in their order; `left_out` counts the others by reason; titles: those of all documents.

    A query that names its passage by a number, or by an id that is no word, asks nobody else's question. Two are near
    copies if they have the same words, whatever their case, order and number: within a group the first stands for all
    of them, and their documents are all relevant to it; those of several groups all go, as nothing says which of them
    is asked for. A document with such a title counts in the same way.
    """
    of_words: defaultdict[frozenset[str], list[Draft]] = defaultdict(list)
    for draft in drafts:
        own = rf"(?<!\w){re.escape(draft.doc_id)}(?!\w)" if _NO_WORD.fullmatch(draft.doc_id) else ""
        if _NUMBERED.search(draft.text) or (own and draft.doc_id in draft.text and re.search(own, draft.text)):
            left_out[NAMING] += 1
        else:
            of_words[frozenset(terms(draft.text))].append(draft)
    titled: defaultdict[frozenset[str], list[Draft]] = defaultdict(list)
    for title in titles:
        if (words := frozenset(terms(title.text))) in of_words:
            titled[words].append(title)
    queries = []
    for words, (first, *others) in of_words.items():
        alike = [*others, *titled.get(words, ())]
        if any(each.group != first.group for each in alike):
            left_out[COPIES] += 1 + len(others)
            continue
        if others:
            left_out[JOINED] += len(others)
        doc_ids = list(dict.fromkeys([first.doc_id, *(each.doc_id for each in alike)]))
        queries.append(Kept(first.query_id, first.text, doc_ids, first.group))
    return queries


def earlier_copies(corpus: Corpus) -> dict[str, str]:
    """The documents with the title and text of an earlier one, each with the id of the first that has them."""
    ordered = corpus.content_hash[corpus.content_order]
    same = ordered[1:] == ordered[:-1]
    rows = np.unique(corpus.content_order[np.append(same, False) | np.append(False, same)])
    firsts, copies = dict[str, str](), dict[str, str]()
    for doc_id, contents in zip(corpus.ids(rows), corpus.contents(rows), strict=True):
        first = firsts.setdefault(normalise(contents), doc_id)  # equal hashes may be of different texts
        if first != doc_id:
            copies[doc_id] = first
    return copies


def with_repeats(
    queries: Iterable[Kept], corpus: Corpus, groups: Mapping[str, str], copies: Mapping[str, str]
) -> Iterator[Kept]:
    """The queries, each relevant also to copies of its passages, and to the passages beside that have its words.

    These are of the same document, cut with an overlap, and follow one another. Words that a passage's own text lacks,
    such as a heading, may stand anywhere, and tell nothing.

    Args:
        queries: in any order.
        corpus: the passages as they were cut.
        groups: the document of each passage.
        copies: passages with the text of an earlier one, each with the id of the first.
    """
    alike = dict[str, list[str]]()
    for doc_id, first in copies.items():
        alike.setdefault(first, [first]).append(doc_id)
        alike[doc_id] = alike[first]
    for query in queries:
        own, words, beside = query.doc_ids[0], normalise(query.text), dict[str, None]()
        for doc_id in alike.get(own, [own]):
            if doc_id not in beside:  # else all that stand beside it are there
                beside |= dict.fromkeys(_beside(corpus, doc_id, words, groups))
        relevant = dict[str, None]()
        for doc_id in (*query.doc_ids, *beside):
            if doc_id not in relevant:
                relevant |= dict.fromkeys(alike.get(doc_id, [doc_id]))
        yield query._replace(doc_ids=list(relevant))


def _beside(corpus: Corpus, doc_id: str, words: str, groups: Mapping[str, str]) -> Iterator[str]:
    """The passages of the same document before and after one, as far as all of them have the words."""
    if (group := groups.get(doc_id)) is None:
        return
    row = int(corpus.rows([doc_id])[0])
    if words not in normalise(corpus.documents_at(np.array([row]))[0].text):
        return
    for rows in (range(row - 1, -1, -1), range(row + 1, len(corpus))):
        for at in rows:
            other = corpus.documents_at(np.array([at]))[0]
            if groups.get(other.doc_id) != group or words not in normalise(other.text):
                break
            yield other.doc_id
