"""Shares of documents that two ranked lists have in common, and shares as bars."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from hardneg.analysis.base import Option, percent
from hardneg.fields import Name
from hardneg.formats.negatives import NegativesFile
from hardneg.records.depths import LIST_DEPTH
from hardneg.records.wording import suggestion
from hardneg.report.figure import bar_width, bars, figure, plain_axes

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""

Against = Annotated[Name | None, Option("baseline", one_of="runs")]
"""The label of one of the field `runs`."""


@dataclass(frozen=True)
class SharedDocuments:
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


def run_overlap(lists: Lists, others: Lists, depth: int) -> SharedDocuments:
    """The share of each query's first `depth` documents that is among the first `depth` of the other run.

    Queries that either run lacks, or has no document for, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    shares = {
        query_id: share_of(doc_ids[:depth], others[query_id][:depth])
        for query_id, doc_ids in lists.items()
        if doc_ids and others.get(query_id)
    }
    queries = {query_id for each in (lists, others) for query_id, doc_ids in each.items() if doc_ids}
    return SharedDocuments(shares, counted({"queries that one run lacks": len(queries) - len(shares)}))


def negatives_overlap(
    negatives: NegativesFile,
    lists: Iterable[tuple[str, Sequence[str]]],
    relevant: Mapping[str, Collection[str]] | None = None,
    depth: int = LIST_DEPTH,
) -> SharedDocuments:
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
    empty, shares = len(negatives) - len(waiting), dict[str, float]()
    for query_id, doc_ids in lists:
        if doc_ids and (row := waiting.pop(query_id, None)) is not None:
            item = negatives[row]
            aside = {*item.positives, *(relevant or {}).get(query_id, ())}
            met = [doc_id for doc_id in doc_ids if doc_id not in aside][:depth]
            shares[query_id] = share_of(item.negatives, met)
    left_out = {"queries without negatives": empty, "queries that the run lacks": len(waiting)}
    return SharedDocuments(shares, counted(left_out))


def check_label(label: str | None, labels: Collection[str]) -> None:
    """A ValueError where `against` is none of the labels."""
    if label is not None and label not in labels:
        message = f"no run is labelled {label}{suggestion(label, labels)}; runs has {', '.join(labels) or 'none'}"
        raise ValueError(f"against: {message}")


def draw_shares(panels: Mapping[str, Mapping[str, float | None]], paths: Sequence[Path]) -> None:
    """Shares from 0 to 1 as bars, one panel a title."""
    widest = max(len(shares) for shares in panels.values())
    with figure(paths, len(panels), width=bar_width(widest)) as drawn:
        for axes, (title, shares) in zip(drawn, panels.items(), strict=True):
            known = {label: 100 * (share or 0.0) for label, share in shares.items()}
            bars(axes, known, {label: percent(share) for label, share in shares.items()})
            plain_axes(axes, title, "", "share (%)")


def share_of(doc_ids: Sequence[str], others: Sequence[str]) -> float:
    """The share of the first list's documents that is among the others; both have some."""
    return len(set(doc_ids) & set(others)) / len(set(doc_ids))


def counted(counts: Mapping[str, int]) -> dict[str, int]:
    """The counts above zero."""
    return {reason: count for reason, count in counts.items() if count}
