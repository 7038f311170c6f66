"""Stages `write-queries` and `round-trip`: query generation from documents, and filtering by a retriever."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field, model_validator

from hardneg.datasets.pydocs import SplitShares
from hardneg.fields import MEASURED, Name, Trait, WriterSettings
from hardneg.formats import arrays, qrels, runs
from hardneg.formats.collection import write_collection
from hardneg.protocols import QueryWriter, SessionWriter
from hardneg.records import errors, layout, text, types, wording
from hardneg.runtime import seeding
from hardneg.stages import Corpus, Facts, RecipeView, StageContext, StageSpec, StoredCollection, base, work

_BLOCK = 1024
_NUMBERED = re.compile(r"\b(?:passage|paragraph|document|excerpt|text)\s*(?:no\.?|number|#)?\s*\(?\d", re.IGNORECASE)
_NO_WORD = re.compile(r"(?=.{5})(?:.*[/\\].*|(?=.*\d).*[^\W\d_].*)", re.DOTALL)
"""An id that cannot be a word: at least five characters, and either a path or a mix of digits and letters."""
NAMING = "queries dropped for referring to their passage by number or id"
COPIES = "queries dropped as near duplicates across documents"
JOINED = "queries merged as near duplicates within a document"
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]")
"""Invalid characters: controls, surrogates, and characters that hide text or change its direction."""


class Draft(NamedTuple):
    """A query generated from a document or, with an empty query id, the document's title. group: the document's."""

    query_id: str
    text: str
    doc_id: str
    group: str


class SelectedQuery(NamedTuple):
    """A query to keep, with all of its relevant documents (the source document first) and their group."""

    query_id: str
    text: str
    doc_ids: Sequence[str]
    group: str


class WriteQueries(StageSpec):
    """Generates queries from the passages, and writes a collection with splits train, dev and test.

    A query's id is `WRITER:DOC_ID:NUMBER`. Text that becomes a query is removed from its passage. The dataset's own
    queries are not included. Of identical passages, only the first gets queries; its copies count as relevant too.
    """

    version = 4
    artifact_type = "collection"
    purpose = "generate queries from the passages"
    needs_dataset = True
    stage: Literal["write-queries"]
    writers: WriterSettings = Field(
        description="Query writers; one is drawn at random per passage. Each is a name or {name: NAME, ...}."
    )
    per_passage: int = Field(1, gt=0, description="Maximum number of queries per passage.")
    passages: int | None = Field(None, gt=0, description="Number of passages to sample; default: all.")
    dev_share: float = Field(0.1, ge=0, lt=1, description="Share of documents whose queries are in split dev.")
    test_share: float = Field(0.1, ge=0, lt=1, description="Share of documents whose queries are in split test.")
    split_by: Literal["group", "passage"] = Field(
        "group", description="Unit of the split: all passages of a document, or single passages."
    )
    seed: int = Field(seeding.SEED, description="Seed for writers that sample, and for the splits.")

    @model_validator(mode="after")
    def _complete(self) -> "WriteQueries":
        names = [setting.name for setting in self.writers]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"writers: {twice[0]} is listed twice; remove one of them")
        if self.dev_share + self.test_share >= 1:
            raise ValueError("dev_share: dev_share + test_share must be below 1, to leave queries for split train")
        return self

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), Trait.WRITTEN_QUERIES: recipe.name}

    def estimate(self, sizes: base.Sizes) -> base.Row:
        count = min(self.passages or sizes.documents, sizes.documents) * self.per_passage
        dev, test = (round(count * share) for share in (self.dev_share, self.test_share))
        splits = {"train": count - dev - test, "dev": dev, "test": test}
        return base.Row(sizes.documents, "passages", sizes.documents * 700, splits)

    def make(self, context: "StageContext[WriteQueries]") -> Facts:
        """Write the collection; facts: counts in total and by writer. Raises DataError if a split has no queries."""
        work.open_corpus(context)
        used: dict[str, dict[str, float]] = {setting.name: {} for setting in self.writers}
        with ExitStack() as stack:
            writers: dict[str, QueryWriter] = {}
            for number, (name, counts) in enumerate(used.items()):
                plugin = context.plugins[f"writers.{number}"]
                session = isinstance(plugin, SessionWriter)
                writers[name] = stack.enter_context(plugin.writing(counts, context.device)) if session else plugin
            writing = _Writing(context.name, self, work.open_collection(context.inputs["dataset"]), writers)
            facts = write_collection(writing, context.folder, context.progress)
        of_writers = {f"{name}: {what}": count for name, counts in used.items() for what, count in counts.items()}
        return {**facts, **writing.counts, **of_writers}


@dataclass(frozen=True)
class _Writing:
    """The new collection: reading its documents generates the queries, which are then filtered and split.

    drafts: the generated queries. counts: facts about them.
    """

    name: str
    spec: WriteQueries
    source: StoredCollection
    writers: Mapping[str, QueryWriter]
    drafts: list[Draft] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def documents(self) -> Iterator[types.Document]:
        spec, chosen, copies = self.spec, None, self._copies
        copied = dict[str, types.Document].fromkeys(copies.values())
        if spec.passages is not None:  # drawn by id, so that a larger sample contains a smaller one
            chosen = frozenset(seeding.drawn_order(spec.seed, "passage", self.source.corpus.doc_ids)[: spec.passages])
        documents = self.source.corpus.documents()
        for writer, (queries, document) in mixed(self.writers, documents, spec.per_passage, spec.seed, chosen, copies):
            doc_id = document.doc_id
            if first := copied.get(copies.get(doc_id, "")):
                self.counts["passages that duplicate another"] += 1
                yield first._replace(doc_id=doc_id)
                continue
            yield document
            if doc_id in copied:
                copied[doc_id] = document
            if not writer:
                self.counts["passages without a query"] += chosen is None or doc_id in chosen
            for number, query in enumerate(queries, 1):
                self.counts[f"queries written by {writer}"] += 1
                line = " ".join(query.split())
                seen = _UNSEEN.sub("", line).strip()
                self.counts["queries with invalid characters removed"] += seen != line
                if seen:
                    self.drafts.append(Draft(f"{writer}:{doc_id}:{number}", seen, doc_id, self._part(doc_id)))

    @property
    def _shares(self) -> SplitShares:
        return SplitShares(self.spec.dev_share, self.spec.test_share, self.spec.seed)

    @cached_property
    def _copies(self) -> dict[str, str]:
        return earlier_copies(self.source.corpus)

    @cached_property
    def _groups(self) -> dict[str, str]:
        return self.source.groups("document")

    def _part(self, doc_id: str) -> str:
        return self._groups.get(doc_id, doc_id) if self.spec.split_by == "group" else doc_id

    @cached_property
    def _by_split(self) -> dict[str, list[SelectedQuery]]:
        spec, corpus = self.spec, self.source.corpus
        by_split: dict[str, list[SelectedQuery]] = {split: [] for split in self.splits()}
        own = ((doc_id, title) for doc_id, title in corpus.titles() if doc_id not in self._copies)
        titles = (Draft("", title, doc_id, self._part(doc_id)) for doc_id, title in own)
        queries = select_queries(self.drafts, titles, self.counts)
        for query in with_repeats(queries, corpus, self._groups, self._copies):
            by_split[self._shares.split(query.group)].append(query)
        if not queries:
            counts = ", ".join(f"{name} {count:,}" for name, count in self.counts.items() if count)
            advice = "use other writers or more documents; `docstring` needs Python files (`forms: [py]`)"
            problem = f"no usable query from {', '.join(self.writers)} ({counts})"
            raise errors.DataError(f"{self.name}: {problem}; {advice}")
        if empty := [split for split, some in by_split.items() if not some]:
            unit, splits = "document" if spec.split_by == "group" else "passage", " and ".join(empty)
            groups = wording.counted(len({query.group for query in queries}), unit)
            written = f"only {wording.counted(len(queries), 'query')} from {groups}, so none for split {splits}"
            advice = "set `split_by: passage`, set" if unit == "document" else "set"
            advice += f" the share of {splits} to 0, or use other writers or more documents"
            raise errors.DataError(f"{self.name}: {written}; {advice}")
        return by_split

    def splits(self) -> Sequence[str]:
        return [split for split, share in self._shares.by_split.items() if share > 0]

    def queries(self, split: str) -> Iterator[types.Query]:
        return (types.Query(query.query_id, query.text) for query in self._by_split[split])

    def qrels(self, split: str) -> Iterator[types.Judgement]:
        for query in self._by_split[split]:
            yield from (types.Judgement(query.query_id, doc_id, 1) for doc_id in query.doc_ids)

    def groups(self, side: types.Side) -> Iterator[types.Membership]:
        if side == "document":
            yield from (types.Membership(*pair) for pair in self._groups.items())
        elif self._groups:
            for query in (each for some in self._by_split.values() for each in some):
                yield types.Membership(query.query_id, self._groups.get(query.doc_ids[0], query.doc_ids[0]))

    def notes(self) -> Sequence[str]:
        return ()


def mixed(
    writers: Mapping[str, QueryWriter],
    documents: Iterable[types.Document],
    count: int,
    seed: int,
    only: Container[str] | None = None,
    copies: Container[str] = (),
) -> Iterator[tuple[str, types.Written]]:
    """Yield a pair per document: its writer's name (empty if none wrote a query), and the queries with the document.

    Writers take turns in an order that depends on the seed and the document id, until one writes a query.

    Args:
        writers: the writers by name.
        documents: the corpus.
        count: the maximum number of queries per document.
        seed: the random seed for the writers and their order.
        only: ids of the documents to write queries for; default: all documents.
        copies: ids of further documents to skip, such as copies of others.
    """
    stream = iter(documents)
    while block := list(islice(stream, _BLOCK)):
        ids = [document.doc_id for document in block]
        draws = ([(seeding.derive_seed(seed, "writer", name, doc_id), name) for name in writers] for doc_id in ids)
        turns = [[name for _, name in sorted(drawn)] for drawn in draws]
        results = [("", types.Written((), document)) for document in block]
        wanted = [at for at, doc_id in enumerate(ids) if (only is None or doc_id in only) and doc_id not in copies]
        for turn, (name, writer) in product(range(len(writers)), writers.items()):
            rows = [row for row in wanted if turns[row][turn] == name and not results[row][0]]
            texts = writer.write((block[row] for row in rows), count=count, seed=seed)
            for row, written in zip(rows, texts, strict=True):
                if written.queries:
                    results[row] = (name, written)
        yield from results


def select_queries(drafts: Iterable[Draft], titles: Iterable[Draft], left_out: Counter[str]) -> list[SelectedQuery]:
    """Return the queries to keep, in order.

    Queries that refer to their passage by a number or an id are dropped. Queries with the same set of words are near
    duplicates. Within a group, they are merged, and all their documents are relevant. Across groups, all of them are
    dropped, since the answer is ambiguous. A document whose title has the same words counts as a near duplicate.

    Args:
        drafts: the generated queries.
        titles: the titles of all documents, as drafts without query ids.
        left_out: receives the counts of dropped queries by reason.
    """
    of_words, titled = defaultdict[frozenset[str], list[Draft]](list), defaultdict[frozenset[str], list[Draft]](list)
    for draft in drafts:
        own = rf"(?<!\w){re.escape(draft.doc_id)}(?!\w)" if _NO_WORD.fullmatch(draft.doc_id) else ""
        if _NUMBERED.search(draft.text) or (own and draft.doc_id in draft.text and re.search(own, draft.text)):
            left_out[NAMING] += 1
        else:
            of_words[frozenset(text.terms(draft.text))].append(draft)
    for title in titles:
        if (words := frozenset(text.terms(title.text))) in of_words:
            titled[words].append(title)
    queries = []
    for words, (first, *others) in of_words.items():
        alike = [first, *others, *titled.get(words, ())]
        if any(each.group != first.group for each in alike):
            left_out[COPIES] += 1 + len(others)
            continue
        if others:
            left_out[JOINED] += len(others)
        doc_ids = list(dict.fromkeys(each.doc_id for each in alike))
        queries.append(SelectedQuery(first.query_id, first.text, doc_ids, first.group))
    return queries


def earlier_copies(corpus: Corpus) -> dict[str, str]:
    """Return the ids of documents whose contents occurred earlier, each mapped to the id of their first occurrence."""
    ordered = corpus.content_hash[corpus.content_order]
    same = ordered[1:] == ordered[:-1]
    rows = np.unique(corpus.content_order[np.append(same, False) | np.append(False, same)])
    firsts, copies = dict[str, str](), dict[str, str]()
    for doc_id, contents in zip(corpus.ids(rows), corpus.contents(rows), strict=True):
        first = firsts.setdefault(arrays.normalise(contents), doc_id)  # hashes may collide
        if first != doc_id:
            copies[doc_id] = first
    return copies


def with_repeats(
    queries: Iterable[SelectedQuery], corpus: Corpus, groups: Mapping[str, str], copies: Mapping[str, str]
) -> Iterator[SelectedQuery]:
    """Yield each query with more relevant documents: copies of its passages, and neighbours that contain its text.

    Neighbours are consecutive passages of the same source document (in `groups`, by passage id). A query whose text is
    not in its own passage, such as a heading, gets no neighbours. copies: the result of `earlier_copies`.
    """

    def has(row: int, words: str) -> bool:
        return words in arrays.normalise(corpus.documents_at(np.array([row]))[0].text)

    def beside(doc_id: str, words: str) -> Iterator[str]:
        row = int(corpus.rows([doc_id])[0])
        if doc_id not in groups or not has(row, words):
            return
        for rows in (range(row - 1, -1, -1), range(row + 1, len(corpus))):
            for other in rows:
                (name,) = corpus.ids(np.array([other]))
                if groups.get(name) != groups[doc_id] or not has(other, words):
                    break
                yield name

    alike = dict[str, list[str]]()
    for doc_id, first in copies.items():
        alike.setdefault(first, [first]).append(doc_id)
        alike[doc_id] = alike[first]
    for query in queries:
        own, words, others = query.doc_ids[0], arrays.normalise(query.text), dict[str, None]()
        for doc_id in alike.get(own, [own]):
            if doc_id not in others:  # else its neighbours are included already
                others |= dict.fromkeys(beside(doc_id, words))
        relevant = dict.fromkeys(each for name in (*query.doc_ids, *others) for each in alike.get(name, [name]))
        yield query._replace(doc_ids=list(relevant))


class RoundTrip(StageSpec):
    """Filters the queries of one split by round-trip consistency: a run must rank a relevant passage near the top.

    The results are a collection and a run with only the remaining queries, for mining. Other splits do not change.

    Source: Alberti et al., Synthetic QA Corpora Generation with Roundtrip Consistency (ACL 2019); with a retriever, Dai
    et al., Promptagator: Few-shot Dense Retrieval From 8 Examples (ICLR 2023).
    """

    version = 1
    artifact_type = "collection"
    also_makes: ClassVar[Mapping[str, str]] = {"run": "."}
    query_disk = (0, 4_000)
    purpose = "keep the generated queries whose passage a retriever finds"
    needs_dataset = True
    stage: Literal["round-trip"]
    run: Annotated[Name, MEASURED] = Field(description="A run of the queries of the split.")
    split: Name = Field("train", description="The split to filter.")
    depth: int = Field(layout.RETURN_DEPTH, gt=0, description="Keep queries with a relevant passage in the top k.")

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {**super().traits(recipe), Trait.WRITTEN_QUERIES: recipe.name}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        length, searched = recipe.list_length(self.run), recipe.stages.get(self.run)
        if length is not None and length < self.depth:
            yield f"depth: {self.run!r} has only {length} documents per query; lower the depth, or search deeper"
        if searched is not None and (searched.dataset or "") != (self.dataset or ""):
            yield f"dataset: {self.run!r} has queries of another dataset; use the same dataset for both"

    def make(self, context: "StageContext[RoundTrip]") -> Facts:
        """Write the filtered collection and run, and return counts. Raises DataError if no query remains."""
        collection = work.open_collection(context.inputs["dataset"])
        queries = work.open_queries(context, collection, self.split)
        returned, missed, qrels = _Returned(collection, self.split, set()), Counter[str](), collection.qrels(self.split)

        def staying() -> Iterator[tuple[str, types.RankedList]]:
            lists = runs.lists_in_order(context.inputs["run"].folder / layout.RUN, queries.query_ids)
            for query_id, ranked in zip(queries.query_ids, lists, strict=True):
                judged = qrels.get(query_id, {})
                if any(judged.get(doc_id, 0) > 0 for doc_id in ranked.doc_ids[: self.depth]):
                    returned.query_ids.add(query_id)
                    yield query_id, ranked
                else:
                    missed[query_id.partition(":")[0]] += 1

        runs.write_run(context.folder / layout.RUN, staying())
        if not returned.query_ids:
            problem = f"{self.run} has no relevant passage in the top {self.depth} for any of {len(queries)} queries"
            raise errors.DataError(f"{context.name}: {problem}; raise the depth, or use another retriever")
        facts = write_collection(returned, context.folder, context.progress, collection.corpus)
        left_out = {f"queries dropped, by {writer}": count for writer, count in sorted(missed.items())}
        return {**facts, "queries kept": len(returned.query_ids), **left_out}


@dataclass(frozen=True)
class _Returned:
    """A stored collection with only some of the queries of `split`."""

    whole: StoredCollection
    split: str
    query_ids: set[str]

    def documents(self) -> Iterator[types.Document]:
        return self.whole.corpus.documents()

    def splits(self) -> Sequence[str]:
        return self.whole.splits

    def queries(self, split: str) -> Iterator[types.Query]:
        return (query for query in self.whole.queries(split) if split != self.split or query.query_id in self.query_ids)

    def qrels(self, split: str) -> Iterator[types.Judgement]:
        for query_id, judged in self.whole.judged(split).items():
            if split != self.split or query_id in self.query_ids:
                yield from (types.Judgement(query_id, *pair) for pair in judged.items())

    def groups(self, side: types.Side) -> Iterator[types.Membership]:
        return (types.Membership(*pair) for pair in self.whole.groups(side).items())

    def excluded(self) -> Iterator[Any]:
        excluded = self.whole.excluded().items()
        return (qrels.Exclusion(query_id, doc_id) for query_id, doc_ids in excluded for doc_id in doc_ids)

    def notes(self) -> Sequence[str]:
        return ()
