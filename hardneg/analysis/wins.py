"""Two systems query by query: which wins, and the documents on which they part."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from hardneg.analysis.overlaps import Lists
from hardneg.data.qrels import Qrels
from hardneg.data.runs import Run

Texts = Callable[[Sequence[str]], Mapping[str, str]]
"""The texts of documents, by id; those that are not known are left out."""

_LONGEST = 300
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Shown:
    """One document of a list; relevance: None where nobody judged it."""

    doc_id: str
    relevance: int | None


@dataclass(frozen=True)
class Case:
    """One query.

    ours, theirs: by the metric. rank, documents: where the lists first hold different documents of which the winner's
    is the more relevant, or, where there is no such rank, first differ at all; rank 0: they are the same.
    """

    query_id: str
    ours: float
    theirs: float
    rank: int
    documents: tuple[Shown | None, Shown | None]

    @property
    def difference(self) -> float:
        """Above zero for a win; what differs by rounding is a tie."""
        difference = self.ours - self.theirs
        return difference if abs(difference) > _ROUNDING else 0.0


def wins_of(runs: tuple[Run, Run], qrels: Qrels, metric: str, relevance_level: int = 1) -> list[Case]:
    """The cases of ours and theirs by a metric's name. Raises UsageError where there is no such metric."""
    from hardneg.evaluation.metrics import evaluate

    ours, theirs = (next(iter(evaluate(run, qrels, [metric], relevance_level).values())) for run in runs)
    first, second = ({query_id: each.doc_ids for query_id, each in run.items()} for run in runs)
    return cases((first, second), (ours, theirs), qrels)


def cases(
    lists: tuple[Lists, Lists], values: tuple[Mapping[str, float], Mapping[str, float]], qrels: Qrels
) -> list[Case]:
    """All judged queries, by falling difference and then by id.

    Args:
        lists: ours, theirs.
        values: a metric by query, of ours and of theirs.
        qrels: what is known to be relevant.

    Source: ANCE (Xiong et al., ICLR 2021), tables 8 and 9.
    """
    found = []
    for query_id, judged in qrels.items():
        ours, theirs = (each[query_id] for each in values)
        pairs = list(zip_longest(lists[0].get(query_id, ()), lists[1].get(query_id, ())))
        rank = _parting(pairs, judged, ours - theirs)
        shown = pairs[rank - 1] if rank else (None, None)
        documents = [None if doc_id is None else Shown(doc_id, judged.get(doc_id)) for doc_id in shown]
        found.append(Case(query_id, ours, theirs, rank, (documents[0], documents[1])))
    return sorted(found, key=lambda case: (-case.difference, case.query_id))


def _parting(pairs: Sequence[tuple[str | None, str | None]], judged: Mapping[str, int], difference: float) -> int:
    """The rank to show, 0 where the lists are equal."""
    different = [rank for rank, (ours, theirs) in enumerate(pairs, 1) if ours != theirs]
    for rank in different:
        grades = [max(0, judged.get(doc_id or "", 0)) for doc_id in pairs[rank - 1]]
        if (grades[0] - grades[1]) * difference > 0:
            return rank
    return different[0] if different else 0


def to_json(found: Sequence[Case], queries: Mapping[str, str], texts: Texts | None = None) -> dict[str, Any]:
    """Wins, losses and ties, and all cases with the texts that are known, documents' cut at 300 characters."""
    doc_ids = [shown.doc_id for case in found for shown in case.documents if shown]
    known = texts(list(dict.fromkeys(doc_ids))) if texts else {}
    return {
        "wins": sum(case.difference > 0 for case in found),
        "losses": sum(case.difference < 0 for case in found),
        "ties": sum(case.difference == 0 for case in found),
        "queries": [
            {
                "query_id": case.query_id,
                "text": queries.get(case.query_id, ""),
                "ours": case.ours,
                "theirs": case.theirs,
                "difference": case.difference,
                "rank": case.rank,
                "documents": [_shown(shown, known) for shown in case.documents],
            }
            for case in found
        ],
    }


def _shown(shown: Shown | None, known: Mapping[str, str]) -> dict[str, Any] | None:
    if shown is None:
        return None
    return {"doc_id": shown.doc_id, "relevance": shown.relevance, "text": known.get(shown.doc_id, "")[:_LONGEST]}
