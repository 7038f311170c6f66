"""Stage `fuse`: several runs of one split as one."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.data.run_stream import lists_in_order
from hardneg.data.runs import write_run
from hardneg.fusion.sums import reciprocal_ranks, weighted_sum
from hardneg.stages.opening import open_collection
from hardneg.stages.search import RUN
from hardneg.stages.work import Work
from hardneg.types import RankedList


def run(work: Work) -> dict[str, Any]:
    """Reads the runs query by query and writes the best of their sum; facts: queries, and how often a run lacks one."""
    query_ids = open_collection(work.inputs["dataset"]).queries(work.spec.split).query_ids
    facts = Counter({"queries": len(query_ids), "depth": work.spec.depth})
    write_run(work.folder / RUN, _entries(work, query_ids, facts))
    return {name: count for name, count in facts.items() if count}


def _entries(
    work: Work, query_ids: Sequence[str], facts: Counter[str]
) -> Iterator[tuple[str, Sequence[str], NDArray[np.float32]]]:
    sources, labels = work.inputs_of("runs"), list(work.spec.weighted)
    streams = [lists_in_order(sources[label].folder / RUN, query_ids) for label in labels]
    with work.progress.task("fusing", len(query_ids), "queries") as task:
        for query_id, *lists in zip(query_ids, *streams, strict=True):
            for label, ranked in zip(labels, lists, strict=True):
                facts[f"queries that {label} lacks"] += not ranked.doc_ids
            fused = _fused(work, lists)
            task.advance()
            if fused.doc_ids:
                yield query_id, fused.doc_ids[: work.spec.depth], fused.scores[: work.spec.depth]


def _fused(work: Work, lists: Sequence[RankedList]) -> RankedList:
    weights = list(work.spec.weighted.values())
    if work.spec.method == "reciprocal-rank":
        return reciprocal_ranks(lists, weights, work.spec.constant)
    return weighted_sum(lists, weights, work.spec.missing_scores)
