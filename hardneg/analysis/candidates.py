"""What reranking fewer candidates costs: one reranked run, cut as if less had been reranked."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.data.qrels import Qrels
from hardneg.data.runs import EMPTY, Run
from hardneg.errors import DataError
from hardneg.types import RankedList

COUNTS = (16, 32, 64, 128, 256, 512, 1000)


@dataclass(frozen=True)
class CandidateOptions:
    """counts: how many candidates. metric: of the reranked ones, beside the recall of the candidates themselves.

    relevance_level: the lowest grade that recall, and binary metrics, take as relevant.
    """

    counts: Sequence[int] = COUNTS
    metric: str = "ndcg@10"
    relevance_level: int = 1


def candidates(
    runs: Mapping[str, tuple[Run, Run]], qrels: Qrels, options: CandidateOptions
) -> dict[str, list[dict[str, Any]]]:
    """By label, for each count: `candidates`, `quality`, `recall`, `documents` (the mean number of candidates).

    runs: by label the first-stage run and the same reranked, both best first. A reranker scores each document alone, so
    that one reranked list holds those of all its prefixes; nothing is scored here. Means are over all judged queries.

    Raises:
        DataError: a reranked list lacks a candidate.
        UsageError: the metric is unknown.

    Source: Wrzalik and Krechel, HSRM-LAVIS at TREC 2020 Deep Learning Track, figure 2.
    """
    from hardneg.evaluation.metrics import evaluate, means

    level, recalls = options.relevance_level, [f"recall@{count}" for count in options.counts]
    found = {}
    for label, (first, reranked) in runs.items():
        places = _places(label, first, reranked, max(options.counts))
        recall = means(evaluate(first, qrels, recalls, level))
        rows = []
        for count, name in zip(options.counts, recalls, strict=True):
            made = prefix(reranked, places, count)
            quality = means(evaluate(made, qrels, [options.metric], level))[options.metric]
            documents = float(np.mean([min(count, len(ranked.doc_ids)) for ranked in first.values()] or [0]))
            rows.append({"candidates": count, "quality": quality, "recall": recall[name], "documents": documents})
        found[label] = rows
    return found


def prefix(reranked: Run, places: Sequence[NDArray[np.int64]], count: int) -> Run:
    """The reranked run as if only the first `count` candidates had been reranked.

    places: for each query the first-stage places of its reranked documents, from 0, int64 [n].
    """
    made = {}
    for (query_id, ranked), place in zip(reranked.items(), places, strict=True):
        kept = np.flatnonzero(place < count)
        made[query_id] = RankedList([ranked.doc_ids[i] for i in kept.tolist()], ranked.scores[kept])
    return made


def _places(label: str, first: Run, reranked: Run, most: int) -> list[NDArray[np.int64]]:
    """Where the reranked documents stand in the first stage's lists; those that it lacks stand behind all."""
    for query_id, ranked in first.items():
        doc_ids = ranked.doc_ids
        if lacking := set(doc_ids[:most]).difference(reranked.get(query_id, EMPTY).doc_ids):
            raise DataError(
                f"{label}: the reranked run lacks {len(lacking)} of the first {min(most, len(doc_ids))} candidates of "
                f"query {query_id}, such as {min(lacking)}; rerank deeper, or ask for fewer candidates"
            )
    found = []
    for query_id, ranked in reranked.items():
        place = {doc_id: number for number, doc_id in enumerate(first.get(query_id, EMPTY).doc_ids)}
        found.append(np.array([place.get(doc_id, np.iinfo(np.int64).max) for doc_id in ranked.doc_ids], np.int64))
    return found
