"""How much of what systems rank highest was ever judged, beside what the judgements say of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hardneg.analysis.overlaps import Lists, run_overlap
from hardneg.data.qrels import Qrels
from hardneg.data.runs import Run
from hardneg.errors import UsageError
from hardneg.registry import suggestion


@dataclass(frozen=True)
class HoleOptions:
    """depth: how far down holes are counted. against: the label of the run to overlap with, `overlap_depth` deep.

    metrics: measured beside, by the grades from `relevance_level` up.
    """

    depth: int = 10
    against: str | None = None
    overlap_depth: int = 100
    metrics: Sequence[str] = ("ndcg@10",)
    relevance_level: int = 1


def hole_rates(lists: Lists, qrels: Qrels, depth: int = 10) -> dict[str, float]:
    """The share of each query's first `depth` documents that has no judgement, not even that it is not relevant.

    Queries without judgements, or without documents, are left out.

    Source: ANCE (Xiong et al., ICLR 2021), table 6.
    """
    return {
        query_id: sum(doc_id not in judged for doc_id in lists[query_id][:depth]) / len(lists[query_id][:depth])
        for query_id, judged in qrels.items()
        if lists.get(query_id)
    }


def holes(runs: Mapping[str, Run], qrels: Qrels, options: HoleOptions) -> dict[str, Any]:
    """Metrics, hole rate and overlap of each run; `judged_zero`: how many judgements say `not relevant`.

    Where that is 0, what is judged is what is relevant, and a hole only says that a document is not known to be.

    Raises:
        UsageError: a metric is unknown, or no run is labelled `against`.
    """
    from hardneg.evaluation.metrics import evaluate, means

    if options.against is not None and options.against not in runs:
        hint = suggestion(options.against, runs)
        raise UsageError(f"against: no run {options.against!r}{hint}; there are: {', '.join(runs)}")
    lists = {label: _judged(run, qrels) for label, run in runs.items()}
    found = {}
    for label, run in runs.items():
        rates = hole_rates(lists[label], qrels, options.depth)
        shared = run_overlap(lists[label], lists[options.against], options.overlap_depth) if options.against else None
        found[label] = {
            "metrics": means(evaluate(run, qrels, options.metrics, options.relevance_level)),
            "holes": sum(rates.values()) / len(rates) if rates else None,
            "overlap": shared.mean if shared else None,
            "queries": len(rates),
            "left_out": len(qrels) - len(rates),
            "per_query": rates,
        }
    zeros = sum(relevance <= 0 for judged in qrels.values() for relevance in judged.values())
    asked = {"depth": options.depth, "against": options.against, "overlap_depth": options.overlap_depth}
    return {**asked, "judged_zero": zeros, "runs": found}


def _judged(run: Run, qrels: Qrels) -> dict[str, Sequence[str]]:
    """The lists of the queries that have judgements."""
    return {query_id: each.doc_ids for query_id, each in run.items() if query_id in qrels and each.doc_ids}
