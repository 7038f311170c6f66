"""Passages that repeat another one: copies of it, and neighbours that share a stretch of text with it."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np

from hardneg.formats.corpus import Corpus
from hardneg.formats.hash_index import normalise
from hardneg.writers.mixture import Kept

_BLOCK = 4096


def earlier_copies(corpus: Corpus) -> dict[str, str]:
    """The documents with the title and text of an earlier one, each with the id of the first that has them."""
    _, first, inverse, counts = np.unique(
        corpus.content_hash, return_index=True, return_inverse=True, return_counts=True
    )
    rows = np.flatnonzero((counts[inverse] > 1) & (first[inverse] != np.arange(len(inverse))))
    return dict(zip(corpus.ids(rows), corpus.ids(first[inverse[rows]].astype(np.int64)), strict=True))


def with_neighbours(queries: Sequence[Kept], corpus: Corpus, groups: Mapping[str, str]) -> Iterator[Kept]:
    """The queries, each relevant also to the passage before or after its own that has its words as they stand.

    That is one of the same document, cut with an overlap. Words that a passage's own text lacks, such as a heading,
    may stand anywhere, and tell nothing.

    Args:
        queries: in any order.
        corpus: the passages as they were cut.
        groups: the document of each passage.
    """
    stream = iter(queries)
    while block := list(islice(stream, _BLOCK)):
        own = corpus.rows([query.doc_ids[0] for query in block])
        around = np.clip(own[:, None] + np.array([0, -1, 1]), 0, len(corpus) - 1)
        documents = iter(corpus.documents_at(around.reshape(-1)))
        for query in block:
            passage, *others = (next(documents) for _ in range(3))
            words, group = normalise(query.text), groups.get(passage.doc_id)
            beside = []
            if group is not None and words in normalise(passage.text):
                beside = [
                    other.doc_id
                    for other in others
                    if groups.get(other.doc_id) == group and words in normalise(other.text)
                ]
            yield query._replace(doc_ids=list(dict.fromkeys([*query.doc_ids, *beside])))
