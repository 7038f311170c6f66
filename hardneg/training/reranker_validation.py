"""A quick look at the dev queries while a reranker learns: the top of a run, ranked anew."""

from collections.abc import Callable

import numpy as np

from hardneg.data.runs import EMPTY
from hardneg.errors import TrainingError
from hardneg.rerankers.network import PairNetwork
from hardneg.rerankers.scoring import PairScorer, ScoreOptions
from hardneg.training.validation import ValidationData, ranked_metrics


def rerank_validation(
    network: PairNetwork, data: ValidationData, depth: int, options: ScoreOptions
) -> Callable[[], dict[str, float]]:
    """A function that measures `mrr@10`, `ndcg@10` and `recall@100` of the network as it is when called.

    The first `depth` documents of each dev query's list are ranked anew; relevant ones that the list lacks are missed.

    Raises:
        TrainingError: no dev query has a relevant document.
    """
    asked = [number for number, query_id in enumerate(data.query_ids) if _gains(data, query_id)]
    if not asked:
        raise TrainingError("no dev query has a relevant document: check its qrels")
    known = [_gains(data, data.query_ids[number]) for number in asked]
    listed = [data.run.get(data.query_ids[number], EMPTY).doc_ids[:depth] for number in asked]
    gains = np.array([gain for judged in known for gain in judged.values()], np.int64)
    query = np.repeat(np.arange(len(asked)), [len(judged) for judged in known])

    def validate() -> dict[str, float]:
        texts = [data.texts[number] for number in asked]
        contents = (data.corpus.contents(data.corpus.rows(doc_ids)) for doc_ids in listed)
        scorer = PairScorer.of(network.module, str(network.device), options)
        ranked = np.zeros((len(asked), depth), np.int64)
        for row, scores in enumerate(scorer.rerank(zip(texts, contents, strict=True))):
            order = np.argsort(-np.asarray(scores), kind="stable")
            ranked[row, : len(order)] = [known[row].get(listed[row][place], 0) for place in order]
        return ranked_metrics(ranked, gains, query)

    return validate


def _gains(data: ValidationData, query_id: str) -> dict[str, int]:
    return {doc_id: gain for doc_id, gain in data.qrels.get(query_id, {}).items() if gain > 0}
