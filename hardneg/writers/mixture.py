"""Several writers on one collection, which of their queries stay, and which other passages these are relevant to."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import normalise
from hardneg.records.terms import terms
from hardneg.records.types import Document, Written
from hardneg.registry.protocols import QueryWriter
from hardneg.runtime.seeding import derive_seed

_BLOCK = 1024
_NUMBERED = re.compile(r"\b(?:passage|paragraph|document|excerpt|text)\s*(?:no\.?|number|#)?\s*\(?\d", re.IGNORECASE)
_NO_WORD = re.compile(r"(?=.{5})(?:.*[/\\].*|(?=.*\d).*[^\W\d_].*)", re.DOTALL)
"""An id that no word of a text is: it has five characters, and is a path, or has a digit and a letter."""

NAMING = "queries left out that name their passage by its number"
COPIES = "queries left out as passages of several documents have nearly the same"
JOINED = "queries joined with nearly the same one of their document"


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


def mixed(
    writers: Mapping[str, QueryWriter],
    documents: Iterable[Document],
    count: int,
    seed: int,
    only: Container[str] | None = None,
    copies: Container[str] = (),
) -> Iterator[tuple[str, Written]]:
    """Each document with what one of the writers made of it, and that one's name; no name where none wrote a query.

    Which writer has the first turn at a document is drawn; one that can write nothing leaves it to the next.

    Args:
        writers: by name.
        documents: in any order; a draw depends on the seed and a document's id only.
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
            of_words[_words(draft.text)].append(draft)
    titled: defaultdict[frozenset[str], list[Draft]] = defaultdict(list)
    for title in titles:
        if (words := _words(title.text)) in of_words:
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


def _words(text: str) -> frozenset[str]:
    return frozenset(terms(text))


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
