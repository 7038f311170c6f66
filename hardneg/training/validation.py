"""Validation during training: dev metrics of an encoder or a reranker, and the staleness of fixed negatives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hardneg.encoders.encoder import Encoder
from hardneg.encoders.protocol import EncodeOptions
from hardneg.evaluation.metrics import ranked_metrics
from hardneg.formats import arrays, runs
from hardneg.formats.corpus import Corpus
from hardneg.formats.segments import Segments
from hardneg.indexes.candidate_scoring import score_matrix
from hardneg.indexes.exact_ranks import best_rank, corpus_pass, overlap
from hardneg.protocols import DenseSearcher, Searcher
from hardneg.records import Encoded, TrainingError
from hardneg.rerankers.network import PairNetwork, PairScorer
from hardneg.training import checkpoint, examples
from hardneg.training.batch_orders import Rows

_DEPTH, _QUERIES = 100, 256


@dataclass(frozen=True, eq=False)
class ValidationData:
    """The dev queries, their qrels, and the run whose top documents are ranked.

    segments: windows that documents are split into, if any; the best window then determines a document's score.
    """

    corpus: Corpus
    query_ids: Sequence[str]
    texts: Sequence[str]
    qrels: Mapping[str, Mapping[str, int]]
    run: runs.Run
    segments: Segments | None = None


@dataclass(frozen=True, eq=False)
class Pool:
    """A subset of the corpus, and the Q dev queries that have a relevant document.

    rows: int64 [N], ascending rows of the corpus. texts: query texts. gains: int64 [J], grades above 0, in query order.
    query: int64 [J], the query of each grade. position: int64 [J], the judged document's index in `rows`, or -1 if it
    is not in the corpus and therefore counts as not retrieved.
    """

    rows: Rows
    texts: list[str]
    gains: Rows
    query: Rows
    position: Rows


def pool_validation(encoder: Encoder, data: ValidationData, depth: int) -> Callable[[], dict[str, float]]:
    """Return a function that measures the encoder's current `mrr@10`, `ndcg@10` and `recall@100`.

    Sparse and multi-vector encoders also get `per_query` and `per_document`, the mean numbers of weights or vectors.
    The pool consists of all dev positives and the first `depth` documents of the run for each dev query. Without the
    rest of the corpus, the metrics are too high, but checkpoints can still be compared.

    Raises:
        TrainingError: no dev query has a relevant document in the corpus.
    """
    pool = make_pool(data, depth)

    def validate() -> dict[str, float]:
        texts, first = data.corpus.contents(pool.rows), None
        if data.segments is None:
            documents = encoder.encode(texts, "document")
        else:
            documents, counts = encoder.encode_segments(texts, data.segments)
            first = np.cumsum(counts) - counts
        queries = encoder.encode(pool.texts, "query")
        metrics = pool_metrics(queries, documents, pool, first)
        for name, encoded in (("per_query", queries), ("per_document", documents)):
            if (ends := getattr(encoded, "offsets", None)) is not None:
                metrics[name] = float(ends[-1]) / max(1, len(ends) - 1)
        return metrics

    return validate


def make_pool(data: ValidationData, depth: int) -> Pool:
    """Return the pool described in `pool_validation`. Raises TrainingError if no relevant document is in the corpus."""
    judged = [
        (number, doc_id, relevance)
        for number, query_id in enumerate(data.query_ids)
        for doc_id, relevance in data.qrels.get(query_id, {}).items()
        if relevance > 0
    ]
    numbers, doc_ids, gains = zip(*judged, strict=True) if judged else ((), (), ())
    relevant = data.corpus.rows(doc_ids)
    if not (in_corpus := relevant >= 0).any():
        raise TrainingError("no dev query has a relevant document in the corpus; check the dev qrels")
    dev_ids = set(data.query_ids)
    tops = (ranked.doc_ids[:depth] for query_id, ranked in data.run.items() if query_id in dev_ids)
    others = data.corpus.rows([doc_id for doc_ids in tops for doc_id in doc_ids])
    rows = np.union1d(relevant[in_corpus], others[others >= 0])
    queries, query = np.unique(numbers, return_inverse=True)
    position = np.where(in_corpus, np.searchsorted(rows, relevant), -1)
    return Pool(rows, [data.texts[number] for number in queries.tolist()], np.array(gains, np.int64), query, position)


def pool_metrics(queries: Encoded, documents: Encoded, pool: Pool, first: Rows | None = None) -> dict[str, float]:
    """Return the mean `mrr@10`, `ndcg@10` and `recall@100` of a pool's Q queries over its N documents.

    Ties are broken by row. first: int64 [N], each document's first vector if there may be several; the best one counts.
    """
    ranked = []
    for start in range(0, len(queries), _QUERIES):
        block = queries[start : start + _QUERIES]
        scores = score_matrix(block, documents)
        scores = scores if first is None else np.maximum.reduceat(scores, first, axis=1)
        gains = np.zeros(scores.shape, np.int64)
        here = (pool.query >= start) & (pool.query < start + len(block)) & (pool.position >= 0)
        gains[pool.query[here] - start, pool.position[here]] = pool.gains[here]
        order = np.argsort(-scores, axis=1, stable=True)[:, :_DEPTH]
        ranked.append(np.take_along_axis(gains, order, axis=1))
    return ranked_metrics(np.concatenate(ranked), pool.gains, pool.query)


def rerank_validation(
    network: PairNetwork, data: ValidationData, depth: int, options: EncodeOptions
) -> Callable[[], dict[str, float]]:
    """Return a function that measures the network's current `mrr@10`, `ndcg@10` and `recall@100`.

    For each dev query, the run's first `depth` documents are reranked; other relevant documents count as not found.

    Raises:
        TrainingError: no dev query has a relevant document.
    """
    judged = [
        (query_id, text, {doc_id: gain for doc_id, gain in data.qrels.get(query_id, {}).items() if gain > 0})
        for query_id, text in zip(data.query_ids, data.texts, strict=True)
    ]
    judged = [each for each in judged if each[2]]
    if not judged:
        raise TrainingError("no dev query has a relevant document; check the dev qrels")
    query_ids, texts, known = zip(*judged, strict=True)
    lists = [data.run.get(query_id, runs.EMPTY).doc_ids[:depth] for query_id in query_ids]
    gains = np.array([gain for each in known for gain in each.values()], np.int64)
    query = np.repeat(np.arange(len(known)), [len(each) for each in known])

    def validate() -> dict[str, float]:
        contents = (data.corpus.contents(data.corpus.rows(doc_ids)) for doc_ids in lists)
        scorer = PairScorer.of(network.module, str(network.device), options)
        ranked = np.zeros((len(known), depth), np.int64)
        for row, scores in enumerate(scorer.rerank(zip(texts, contents, strict=True))):
            order = np.argsort(-np.asarray(scores), stable=True)
            ranked[row, : len(order)] = [known[row].get(lists[row][rank], 0) for rank in order]
        return ranked_metrics(ranked, gains, query)

    return validate


@dataclass(frozen=True)
class StalenessWatch:
    """A callable that measures, every `every` steps, how stale the negatives of the training queries in `batch` are.

    batch: Q queries. lists: function that maps the encoded queries to their negatives, int64 [Q, n], padded with -1;
    positives are ignored. documents: size of the index. depth: number of negatives, and of top hits, to compare.
    Ranks in the whole corpus are measured only if there is one vector per document.

    Source: Zhan et al., Optimizing Dense Retrieval Model Training with Hard Negatives (SIGIR 2021), section 8.2.
    """

    encoder: Encoder
    searcher: Searcher
    documents: int
    batch: examples.QueryRows
    lists: Callable[[Encoded], Rows]
    every: int
    depth: int

    def __call__(self, step: int) -> checkpoint.Record:
        """Return `drift`: `mrr@10` and, if possible, `overlap`, `best_rank`, `best_rank_median`; empty if not due."""
        if step % self.every:
            return {}
        queries = self.encoder.encode(self.batch.texts, "query")
        top = self.searcher.search(queries, max(self.depth, 10)).rows
        hits = arrays.known_to(top[:, :10], self.batch.known, self.batch.owner, len(top))
        metrics = {"mrr@10": float(np.where(hits.any(axis=1), 1 / (1 + hits.argmax(axis=1)), 0.0).mean())}
        watched, age = self.lists(queries)[:, : self.depth], dict[str, float]()
        watched = np.where(arrays.known_to(watched, self.batch.known, self.batch.owner, len(watched)), -1, watched)
        if (some := (watched >= 0).any(axis=1)).any():
            age["overlap"] = float(overlap(watched[some], top[some, : self.depth]).mean())
            if isinstance(self.searcher, DenseSearcher) and isinstance(queries, np.ndarray):
                index, device = corpus_pass(self.searcher, self.documents), str(self.encoder.device)
                best = best_rank(index, queries[some], watched[some], device)
                age |= {"best_rank": float(best.mean()), "best_rank_median": float(np.median(best))}
        return {"drift": {**age, **metrics}}
