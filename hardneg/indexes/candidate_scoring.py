"""Score candidates and positives by their vectors, and search documents that have several vectors each."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardneg.formats import arrays, segments
from hardneg.formats.collection import Queries, StoredCollection
from hardneg.indexes import checks
from hardneg.protocols import DenseSearcher, Searcher, StoredSearcher
from hardneg.records import Encoded, EncodedRows, Hits, Negatives, RankedList, UsageError

_VECTORS, _TEXTS = 1 << 14, 1 << 11  # documents scored at a time: with one vector each; with several
_QUERIES = 4096
_EACH = 8  # vectors to search per requested document at first, enough for most lists
_HITS, _POOLED = 1 << 26, 1 << 20  # vectors held and ranked at a time


def score_matrix(queries: Encoded, documents: Encoded) -> NDArray[np.float32]:
    """Return the score of each query with each document: float32 [Q, D], which must fit into memory.

    Raises:
        UsageError: queries and documents differ in form or dimension, or a query vector is not finite.
    """
    return _scored(queries, documents, "score_matrix", lambda one, other: one @ other.T)


def score_pairs(queries: Encoded, documents: Encoded) -> NDArray[np.float32]:
    """Return the score of each query with the document at the same position: float32 [n].

    Raises:
        UsageError: queries and documents differ in form or dimension, or a query vector is not finite.
    """
    return _scored(queries, documents, "score_pairs", lambda one, other: np.einsum("nd,nd->n", other, one))


def _scored(
    queries: Encoded, documents: Encoded, method: str, products: Callable[..., NDArray[np.float32]]
) -> NDArray[np.float32]:
    if isinstance(queries, np.ndarray) and isinstance(documents, np.ndarray):
        checks.check_queries(queries, documents.shape[1], 1)
        return products(queries, documents)
    if isinstance(queries, EncodedRows) and type(queries) is type(documents):
        scores: NDArray[np.float32] = getattr(queries, method)(documents)
        return scores
    raise UsageError("queries and documents are encoded in different forms; use the same model for both")


def rank_candidates(
    searcher: Searcher,
    queries: Sequence[str] | Encoded,
    candidates: NDArray[np.int64],
    k: int,
    at_once: int | None = None,
) -> Hits:
    """Return the k best candidates of each query. Ties are broken by ascending row, including ties at rank k.

    Args:
        searcher: an open index of encoded texts; a `PooledSearcher` scores each candidate by its best vector.
        queries: Q queries, encoded by the model of the index.
        candidates: int64 [Q, C], the rows of the documents to rank for each query; short lists are padded with -1.
        k: length of the returned lists; short lists are padded with -1, and documents without a score are left out.
        at_once: number of documents to decode and score at a time; by default, a number that suits the searcher.

    Raises:
        UsageError: the index has no vectors, a row is not in the index, or the queries are texts, contain non-finite
            numbers, or differ from the index in form or dimension.
    """
    stored, first = (searcher.searcher, searcher.first) if isinstance(searcher, PooledSearcher) else (searcher, None)
    if not isinstance(stored, StoredSearcher | DenseSearcher):
        raise UsageError("this index has no vectors to score candidates with; use a dense index")
    wanted = checks.check_encoded("candidate scoring", queries)
    rows = np.full((len(queries), max(k, candidates.shape[1])), -1, np.int64)
    rows[:, : candidates.shape[1]] = candidates
    scores = np.full(rows.shape, -np.inf, np.float32)
    fitting: int = getattr(stored, "at_once", _VECTORS if isinstance(wanted, np.ndarray) else _TEXTS)
    at_once = at_once or fitting
    step = max(1, at_once // rows.shape[1])
    for start in range(0, len(queries), step):
        owner, column = np.nonzero(rows[start : start + step] >= 0)
        part, chosen = wanted[start + owner], rows[start + owner, column]
        if first is None or not len(chosen):
            scores[start + owner, column] = _pairs(stored, part, chosen, at_once)
        else:  # the best score of a document's vectors
            vectors, document = arrays.ranges(first[chosen], first[chosen + 1])
            begins = np.searchsorted(document, np.arange(len(chosen)))
            each = _pairs(stored, part[document], vectors, at_once)
            scores[start + owner, column] = np.maximum.reduceat(each, begins)
    rows[np.isneginf(scores)] = -1
    hits = checks.in_order(rows, scores)
    return Hits(hits.rows[:, :k], hits.scores[:, :k])


def _pairs(
    stored: StoredSearcher | DenseSearcher, queries: Encoded, rows: NDArray[np.int64], at_once: int
) -> NDArray[np.float32]:
    scores = np.empty(len(rows), np.float32)
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        scores[part] = score_pairs(queries[part], encoded_rows(stored, rows[part]))
    return scores


def encoded_rows(searcher: StoredSearcher | DenseSearcher, rows: NDArray[np.int64]) -> Encoded:
    """Return the encoded documents in `rows`, int64 [n], of an index: vectors, float32 [n, d], or `EncodedRows`."""
    return searcher.encoded(rows) if isinstance(searcher, StoredSearcher) else searcher.vectors(rows)


def angular_scores(cosines: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return 1 - arccos(cosine) / pi: float32 of the same shape, from 0 to 1, increasing with the cosine.

    Source: Cer et al., Universal Sentence Encoder (2018), section 5; divided by pi as in Wrzalik and Krechel,
    HSRM-LAVIS at TREC 2020 Deep Learning Track (2020), Eq. 1.
    """
    angles = np.arccos(np.clip(cosines, -1, 1, dtype=np.float64))
    scores: NDArray[np.float32] = (1 - angles / np.pi).astype(np.float32)
    return scores


PositiveScores = dict[str, NDArray[np.float32]]


def scores_in_run(negatives: Iterable[Negatives], entries: Iterable[tuple[str, RankedList]]) -> PositiveScores:
    """Return the scores of each query's positives in a run, by query id: float32 [positives], nan if missing."""
    positives = {item.query_id: list(item.positives) for item in negatives}
    scores = {query_id: np.full(len(doc_ids), np.nan, np.float32) for query_id, doc_ids in positives.items()}
    for query_id, ranked in entries:
        if query_id in positives:
            known = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
            scores[query_id] = np.array([known.get(doc_id, np.nan) for doc_id in positives[query_id]], np.float32)
    return scores


def fill_from_model(
    scores: PositiveScores,
    negatives: Iterable[Negatives],
    queries: Queries,
    collection: StoredCollection,
    encode: Callable[[Sequence[str]], Encoded],
    searcher: Searcher,
) -> None:
    """Replace each nan in `scores`, in place, with the score that a search with the model would return.

    Scores of documents that share no term with the query remain nan. negatives: items with each query's positives, in
    the order of `scores`. encode: function that encodes query texts. searcher: the model's open index.
    """
    texts = dict(zip(queries.query_ids, queries.texts, strict=True))
    positives = {i.query_id: list(i.positives) for i in negatives if np.isnan(scores[i.query_id]).any()}
    query_ids = list(positives)
    for start in range(0, len(query_ids), _QUERIES):
        block = query_ids[start : start + _QUERIES]
        candidates = collection.corpus.list_rows([positives[query_id] for query_id in block])
        hits = rank_candidates(searcher, encode([texts[query] for query in block]), candidates, candidates.shape[1])
        for query_id, own, rows, values in zip(block, candidates, hits.rows, hits.scores, strict=True):
            known = dict(zip(rows[rows >= 0].tolist(), values.tolist(), strict=False))
            missing = np.flatnonzero(np.isnan(scores[query_id]))
            scores[query_id][missing] = [known.get(row, np.nan) for row in own[missing].tolist()]


def pooled(searcher: Searcher, folder: Path, doc_ids: Sequence[str]) -> Searcher:
    """Return a searcher that ranks the documents of an index folder. searcher: a searcher for its vectors.

    If each document has one vector, return `searcher` itself, else a `PooledSearcher`. doc_ids: the ids of the corpus.

    Raises:
        ArtifactError: the index was built from another corpus.
    """
    first = segments.document_rows(folder, doc_ids)
    return searcher if first is None else PooledSearcher(searcher, first)


@dataclass(frozen=True)
class PooledSearcher:
    """A searcher that ranks documents by their best vector in `searcher`; hits are document rows.

    first: int64 [D + 1], the row of each document's first vector, then the total number of vectors.
    """

    searcher: Searcher
    first: NDArray[np.int64]

    def search(self, queries: Sequence[str] | Encoded, k: int) -> Hits:
        """Return the k documents with the best vectors. Ties are broken by ascending row, including ties at rank k.

        The result is exact if `searcher` is: with at most m vectors per document, the best k * m vectors contain k
        documents. If m is large, the search starts with fewer vectors, and continues for queries with too few hits.

        Raises:
            UsageError: the queries are texts, k is below 1, or `searcher` rejects the queries.
        """
        checks.check_depth(k)
        wanted = checks.check_encoded("an index of segments", queries)
        most = max(1, min(k * self._most, int(self.first[-1])))
        depth = min(most, k * _EACH) if k < len(self.first) - 1 else most
        hits = self._search(wanted, k, depth)
        while depth < most and len(short := np.flatnonzero(hits.rows[:, -1] < 0)):
            depth = min(2 * depth, most)
            more = self._search(wanted[short], k, depth)
            hits.rows[short], hits.scores[short] = more.rows, more.scores
        return hits

    @cached_property
    def _most(self) -> int:
        return int(np.diff(self.first).max(initial=1))

    def _search(self, queries: Encoded, k: int, depth: int) -> Hits:
        """Return the first k documents of the best `depth` vectors."""
        out = checks.no_hits(len(queries), k)
        searched, ranked = max(1, _HITS // depth), max(1, _POOLED // depth)
        for start in range(0, len(queries), searched):
            hits = self.searcher.search(queries[start : start + searched], depth)
            for offset in range(0, len(hits.rows), ranked):
                some = slice(offset, offset + ranked)
                documents = np.searchsorted(self.first, hits.rows[some], "right") - 1
                best = first_of_each(Hits(documents, hits.scores[some]), k)
                part = slice(start + offset, start + offset + len(documents))
                out.rows[part], out.scores[part] = best.rows, best.scores
        return out


def first_of_each(hits: Hits, k: int) -> Hits:
    """Return the first k distinct rows of each list with their scores, padded to length k with -1 and -inf."""
    order = np.argsort(hits.rows, axis=1, stable=True)
    ordered = np.take_along_axis(hits.rows, order, 1)
    new = np.ones_like(ordered, bool)
    new[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    keep = np.zeros_like(new)
    np.put_along_axis(keep, order, new & (ordered >= 0), 1)
    rank = np.cumsum(keep, 1) - 1
    line, column = np.nonzero(keep & (rank < k))
    first = checks.no_hits(len(hits.rows), k)
    first.rows[line, rank[line, column]] = hits.rows[line, column]
    first.scores[line, rank[line, column]] = hits.scores[line, column]
    return first
