"""How much of one ranked list is in another: two runs, or what was trained on and what is met in testing."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from hardneg.data.negatives import NegativesFile

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""


@dataclass(frozen=True)
class Overlap:
    """Shares by query, from 0 to 1, and how many queries were left out, by reason."""

    shares: Mapping[str, float]
    left_out: Mapping[str, int] = field(default_factory=dict)

    @property
    def mean(self) -> float | None:
        """Over the queries; None where there are none."""
        return math.fsum(self.shares.values()) / len(self.shares) if self.shares else None

    def to_json(self) -> dict[str, Any]:
        """The mean as `overlap`, and over how many queries."""
        return {"overlap": self.mean, "queries": len(self.shares), "left_out": dict(self.left_out)}


def run_overlap(lists: Lists, others: Lists, depth: int = 100) -> Overlap:
    """The share of each query's first `depth` documents that is among the first `depth` of the other run.

    Queries that either run lacks, or has no document for, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    found = {
        query_id: _share(doc_ids[:depth], others[query_id][:depth])
        for query_id, doc_ids in lists.items()
        if doc_ids and others.get(query_id)
    }
    queries = {query_id for each in (lists, others) for query_id, doc_ids in each.items() if doc_ids}
    return Overlap(found, _counted({"queries that one run lacks": len(queries) - len(found)}))


def run_overlaps(runs: Mapping[str, Lists], depth: int = 100, against: str | None = None) -> list[dict[str, Any]]:
    """The overlap of each labelled run with the one labelled `against`, or of each pair where there is none."""
    pairs = [(label, against) for label in runs if label != against] if against else list(combinations(runs, 2))
    return [_compared(runs, pair, depth) for pair in pairs]


def _compared(runs: Mapping[str, Lists], pair: tuple[str, str], depth: int) -> dict[str, Any]:
    found = run_overlap(runs[pair[0]], runs[pair[1]], depth)
    return {"run": pair[0], "against": pair[1], **found.to_json(), "per_query": dict(found.shares)}


def negatives_overlap(
    negatives: NegativesFile,
    lists: Iterable[tuple[str, Sequence[str]]],
    relevant: Mapping[str, Collection[str]] | None = None,
    depth: int = 100,
) -> Overlap:
    """The share of each query's training negatives that is among the negatives met in testing.

    Met are the first `depth` documents of the trained model's own run that are not relevant.

    Args:
        negatives: what was trained on, each with the positives that it was mined with.
        lists: the run of the trained model over the same queries, streamed: a query id and its documents.
        relevant: more documents by query that are no negatives.
        depth: how many of the run's negatives are looked at.

    Source: ANCE (Xiong et al., ICLR 2021), figure 3; section 5.3 of its first version.
    """
    counts = negatives.counts
    waiting = {query_id: row for row, query_id in enumerate(negatives.query_ids) if counts[row]}
    empty, found = len(negatives) - len(waiting), dict[str, float]()
    for query_id, doc_ids in lists:
        if doc_ids and (row := waiting.pop(query_id, None)) is not None:
            item = negatives[row]
            aside = {*item.positives, *(relevant or {}).get(query_id, ())}
            met = [doc_id for doc_id in doc_ids if doc_id not in aside][:depth]
            found[query_id] = _share(item.negatives, met)
    return Overlap(found, _counted({"queries without negatives": empty, "queries that the run lacks": len(waiting)}))


def _share(doc_ids: Sequence[str], others: Sequence[str]) -> float:
    return len(set(doc_ids) & set(others)) / len(set(doc_ids))


def _counted(counts: Mapping[str, int]) -> dict[str, int]:
    return {reason: count for reason, count in counts.items() if count}
