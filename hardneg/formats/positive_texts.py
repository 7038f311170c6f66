"""Each query's positive as the query text, to search for the neighbours of positives."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.corpus import Corpus
from hardneg.formats.queries import Queries

WITHOUT = "queries without positives"


@dataclass(frozen=True)
class DocumentTexts(Sequence[str]):
    """The contents of some documents, read on access; rows: int64 [n], of the corpus."""

    corpus: Corpus
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return self.corpus.contents(self.rows[index])
        return self.corpus.contents(self.rows[index : index + 1 or None])[0]


def positive_texts(
    queries: Queries, known: Mapping[str, Sequence[str]], corpus: Corpus, facts: Counter[str]
) -> Queries:
    """The queries, each with the contents of its first positive that the corpus has, read on access.

    Those that have none are left out, and counted in `facts`.

    Args:
        queries: of one split.
        known: positives by query id, in the order of the judgements.
        corpus: what the positives are documents of.
        facts: counts.
    """
    lists = [known.get(query_id, ()) for query_id in queries.query_ids]
    rows = corpus.rows([doc_id for doc_ids in lists for doc_id in doc_ids])
    owner = np.repeat(np.arange(len(lists)), [len(doc_ids) for doc_ids in lists])[rows >= 0]
    owners, first = np.unique(owner, return_index=True)
    if left_out := len(lists) - len(owners):
        facts[WITHOUT] = left_out
    query_ids = [queries.query_ids[i] for i in owners.tolist()]
    return Queries(query_ids, DocumentTexts(corpus, rows[rows >= 0][first]))
