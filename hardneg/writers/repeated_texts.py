"""Passages that repeat another one: copies of it, and neighbours that share a stretch of text with it."""

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import normalise
from hardneg.writers.mixture import Kept


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
