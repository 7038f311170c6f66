"""Fusion by ranx: its methods, by its names, over many queries at once.

`condorcet` and `w_condorcet` are left out: ranx orders documents that draw by a Python set, so that the same runs
give another list in another process. Source: Bassani and Romelli, ranx.fuse (CIKM 2022).
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from hardneg.data.runs import strictly_decreasing
from hardneg.errors import MissingDependency
from hardneg.spare_home import spare_home
from hardneg.types import RankedList

Method = Literal[
    "bordafuse", "anz", "gmnz", "max", "med", "min", "mnz", "sum", "isr", "log_isr", "logn_isr", "mixed", "rbc", "rrf",
    "w_bordafuse", "wmnz", "wsum",
]  # fmt: skip
Norm = Literal["none", "min-max", "min-max-inverted", "max", "sum", "zmuv", "rank", "borda"]

WEIGHTED = ("mixed", "w_bordafuse", "wmnz", "wsum")
PARAMETERS: Mapping[str, str] = {"gmnz": "gamma", "logn_isr": "sigma", "rbc": "phi", "rrf": "k"}
"""Methods with one number of their own, and ranx's name of it."""
_NAME = "{:08d}"
DEFAULTS: Mapping[str, float] = {"logn_isr": 0.01, "rrf": 60}


def fused_by_ranx(
    by_query: Sequence[Sequence[RankedList]], method: str, norm: str, params: Mapping[str, Any]
) -> list[RankedList]:
    """One list for each query's lists, scores float32 [n], descending; every query has as many lists as the first.

    params: as ranx takes them (`weights`, `gamma`, `sigma`, `phi`, `k`).

    Raises:
        MissingDependency: ranx cannot be imported.
    """
    try:
        with spare_home():
            from ranx import fuse
    except ImportError as error:
        raise MissingDependency(f'method {method} needs ranx ({error}); pip install "hardneg"') from error
    doc_ids = [sorted({doc_id for ranked in lists for doc_id in ranked.doc_ids}) for lists in by_query]
    runs = [_as_ranx([lists[place] for lists in by_query], doc_ids) for place in range(len(by_query[0]))]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="unsafe cast", category=Warning)
        found = fuse(runs, norm=None if norm == "none" else norm, method=method, params=dict(params))
    return [_in_order(dict(found[str(number)]), known) for number, known in enumerate(doc_ids)]


def _as_ranx(lists: Sequence[RankedList], doc_ids: Sequence[Sequence[str]]) -> Any:
    """A run of ranx, queries by number, and one more: ranx takes no run without any document.

    Documents are called by their number within the query, all equally long: for ids of another length ranx would
    compile anew. Equal scores are made to differ, so that its ranks are the run's.
    """
    from ranx import Run

    queries = {}
    for number, (ranked, known) in enumerate(zip(lists, doc_ids, strict=True)):
        names = {doc_id: _NAME.format(place) for place, doc_id in enumerate(known)}
        scores = strictly_decreasing(np.asarray(ranked.scores, np.float32)).tolist()
        queries[str(number)] = {names[doc_id]: score for doc_id, score in zip(ranked.doc_ids, scores, strict=True)}
    return Run(queries | {"none": {_NAME.format(0): 1.0}})


def _in_order(found: Mapping[str, float], doc_ids: Sequence[str]) -> RankedList:
    """ranx's scores as a list; equal ones go by id."""
    scores = np.array([found[_NAME.format(place)] for place in range(len(doc_ids))], np.float32)
    order = np.argsort(-scores, kind="stable")
    return RankedList([doc_ids[place] for place in order.tolist()], scores[order])
