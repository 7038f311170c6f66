"""Other models' scores of the queries' documents: a teacher's, from a file, and a guide's, from its vectors."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats.corpus import Corpus
from hardneg.protocols import DenseSearcher, StoredSearcher
from hardneg.records import RankedList, UsageError
from hardneg.store import digest, file_digest, replacing

_KEYS, _SCORES = "keys.i8", "scores.f4"
_QUERIES = 1024


@dataclass(frozen=True, eq=False)
class Teacher:
    """The scores of a teacher.

    documents: how many the corpus has. keys: int64 [E], ascending, a query's position among the training queries times
    that, plus a document's row. values: float32 [E]. name: a digest of both.
    """

    documents: int
    keys: NDArray[np.int64]
    values: NDArray[np.float32]
    name: str = field(default="")

    @classmethod
    def open(cls, folder: Path, documents: int) -> "Teacher":
        keys, values = folder / _KEYS, folder / _SCORES
        name = digest([file_digest(keys), file_digest(values)])
        if not keys.stat().st_size:
            return cls(documents, np.empty(0, np.int64), np.empty(0, np.float32), name)
        return cls(documents, np.memmap(keys, "<i8", "r"), np.memmap(values, "<f4", "r"), name)

    def scores(self, queries: NDArray[np.int64], documents: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of each query's documents, float32 [B, n], nan where the teacher has none.

        queries: int64 [B], positions among the training queries. documents: int64 [B, n], rows of the corpus.
        """
        wanted = queries[:, None] * self.documents + documents
        if not len(self.keys):
            return np.full(wanted.shape, np.nan, np.float32)
        position = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        return np.where(self.keys[position] == wanted, self.values[position], np.float32(np.nan))


def write_teacher(folder: Path, corpus: Corpus, lists: Iterable[RankedList]) -> None:
    """Writes the scores of one list a training query, in the queries' order, a block at a time.

    Documents that the corpus lacks are left out.
    """
    waiting, start = iter(lists), 0
    with replacing(folder / _KEYS) as keys, replacing(folder / _SCORES) as values:
        while block := list(islice(waiting, _QUERIES)):
            position = np.repeat(np.arange(start, start + len(block)), [len(ranked.doc_ids) for ranked in block])
            rows = corpus.rows([doc_id for ranked in block for doc_id in ranked.doc_ids])
            scores = np.concatenate([ranked.scores for ranked in block])
            known = np.flatnonzero(rows >= 0)
            key = (position * len(corpus) + rows)[known]
            order = key.argsort()
            keys.write(key[order].astype("<i8").tobytes())
            values.write(scores[known][order].astype("<f4").tobytes())
            start += len(block)


@dataclass(frozen=True, eq=False)
class Guide:
    """A model that does not learn, as its vectors.

    documents: the index that it encoded. queries: float32 [Q, d], mapped, those of the training queries. name: a digest
    of what both come from.

    Source: Solatorio, GISTEmbed: Guided In-sample Selection of Training Negatives for Text Embedding Fine-tuning
    (2024), section 3; there the guide encodes each batch.
    """

    documents: StoredSearcher | DenseSearcher
    queries: NDArray[np.float32]
    name: str = field(default="")

    def of(
        self, queries: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """The vectors of a batch, float32 [B, d] and [D, d]; queries int64 [B], rows of the corpus int64 [D].

        Raises:
            UsageError: the index does not hold one vector a document.
        """
        return self.queries[queries], self._vectors(rows)

    def of_lists(self, queries: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The scores of each query's own documents, float32 [B, M]; queries int64 [B], rows int64 [B, M]."""
        vectors = self._vectors(rows.reshape(-1)).reshape(*rows.shape, -1)
        scores: NDArray[np.float32] = np.einsum("bmd,bd->bm", vectors, self.queries[queries])
        return scores

    def _vectors(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        from hardneg.indexes.kernels.candidate_scoring import encoded_rows

        stored = encoded_rows(self.documents, rows)
        if not isinstance(stored, np.ndarray) or stored.shape[1] != self.queries.shape[1]:
            raise UsageError("guide: its index holds other vectors than its model makes: name another encode stage")
        return stored
