"""Shares of documents that two ranked lists have in common, and shares as bars."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from hardneg.analysis.base import Option, percent
from hardneg.fields import Name
from hardneg.registry import suggestion
from hardneg.reporting.figure import bar_width, bars, figure, plain_axes

Lists = Mapping[str, Sequence[str]]
"""Document ids by query, best first."""

Against = Annotated[Name | None, Option("--baseline", old=("--against",), one_of="runs")]
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


def run_overlap(lists: Lists, others: Lists, depth: int = 100) -> SharedDocuments:
    """The share of each query's first `depth` documents that is among the first `depth` of the other run.

    Queries that either run lacks, or has no document for, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    found = {
        query_id: share_of(doc_ids[:depth], others[query_id][:depth])
        for query_id, doc_ids in lists.items()
        if doc_ids and others.get(query_id)
    }
    queries = {query_id for each in (lists, others) for query_id, doc_ids in each.items() if doc_ids}
    return SharedDocuments(found, counted({"queries that one run lacks": len(queries) - len(found)}))


def check_label(label: str | None, labels: Collection[str]) -> None:
    """A ValueError where `against` is none of the labels."""
    if label is not None and label not in labels:
        told = f"no run is labelled {label}{suggestion(label, labels)}; runs has {', '.join(labels) or 'none'}"
        raise ValueError(f"against: {told}")


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
