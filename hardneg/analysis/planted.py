"""How well filters of negatives find positives that were hidden from them: planted noise."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.miners.rules import RULES, lowest, scores_of
from hardneg.types import Candidates

Thresholds = Mapping[str, Sequence[float]]
"""The thresholds to try, by the name of the filtering miner."""

THRESHOLDS: Mapping[str, tuple[float, ...]] = {
    "denoised": (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99),
    "pos-margin": (0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9),
    "pos-percent": (1.0, 0.99, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3, 0.1),
}
_QUERIES = 4096
_COUNTED = ("candidates", "hidden", "unscored", "queries with no scored positive")

Asked = tuple[Candidates, Collection[str]]
"""A query, whose first list is filtered, and the documents that are hidden positives of it."""


@dataclass(frozen=True)
class Point:
    """One filter at one threshold; a share is None where there is nothing to divide by.

    removed: candidates. recall: the hidden positives among them, of all hidden positives that are candidates.
    precision: the same, of all that is removed. kept: the share of the other candidates, true negatives, that stays.
    """

    threshold: float
    removed: int
    recall: float | None
    precision: float | None
    kept: float | None


@dataclass(frozen=True)
class _Block:
    """The candidates of some queries, C of them in a line; those without a score are left out.

    scores: float32 [C]. positive: float32 [C], the lowest score of the query's known positives, nan where none has one.
    hidden: bool [C].
    """

    scores: NDArray[np.float32]
    positive: NDArray[np.float32]
    hidden: NDArray[np.bool_]


class _Tally:
    """Counts of what each filter removes by the scores of one run."""

    def __init__(self, thresholds: Thresholds) -> None:
        self.facts = Counter(dict.fromkeys(_COUNTED, 0))
        self._grid = [(name, threshold) for name, values in thresholds.items() for threshold in values]
        self._removed = np.zeros((len(self._grid), 2), np.int64)  # others, hidden ones

    def add(self, block: _Block) -> None:
        self.facts["candidates"] += len(block.hidden)
        self.facts["hidden"] += int(block.hidden.sum())
        for row, (name, threshold) in enumerate(self._grid):
            removed = ~RULES[name](threshold)(block.scores, block.positive)
            self._removed[row] += np.bincount(block.hidden[removed], minlength=2)

    def to_json(self) -> dict[str, Any]:
        """The facts, and by filter its points."""
        hidden = self.facts["hidden"]
        others = self.facts["candidates"] - hidden
        points: dict[str, list[dict[str, Any]]] = {name: [] for name, _ in self._grid}
        for (name, threshold), (wrong, right) in zip(self._grid, self._removed.tolist(), strict=True):
            shares = _share(right, hidden), _share(right, wrong + right), _share(others - wrong, others)
            points[name].append(asdict(Point(threshold, wrong + right, *shares)))
        return {**self.facts, "filters": points}


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def planted(queries: Iterable[Asked], labels: Sequence[str], thresholds: Thresholds, depth: int) -> dict[str, Any]:
    """What each filter does with the first `depth` documents of the first lists, known positives and copies left out.

    Candidates without a score are left out and counted. A query whose known positives have no score loses all to the
    filters that compare with them, and is counted.

    Args:
        queries: read once.
        labels: the lists whose scores decide, by their name among the candidates' hits.
        thresholds: by filter.
        depth: how far down to look.
    """
    tallies = {label: _Tally(thresholds) for label in labels}
    facts, waiting = Counter({"queries": 0, "with hidden positives": 0}), iter(queries)
    while asked := list(islice(waiting, _QUERIES)):
        facts["queries"] += len(asked)
        facts["with hidden positives"] += sum(bool(hidden) for _, hidden in asked)
        for label, tally in tallies.items():
            tally.add(_joined(list(_blocks(asked, label, depth, tally.facts))))
    return {"depth": depth, **facts, "scores": {label: tally.to_json() for label, tally in tallies.items()}}


def _blocks(asked: Sequence[Asked], label: str, depth: int, facts: Counter[str]) -> Iterator[_Block]:
    for query, hidden in asked:
        aside, scored = query.duplicates.union(query.positives), query.hits[label]
        doc_ids = [doc_id for doc_id in query.ranking.doc_ids[:depth] if doc_id not in aside]
        scores, positive = scores_of(doc_ids, scored), lowest(scores_of(query.positives, scored))
        known = ~np.isnan(scores)
        facts["unscored"] += int((~known).sum())
        facts["queries with no scored positive"] += bool(np.isnan(positive))
        found = np.array([doc_id in hidden for doc_id in doc_ids], bool)[known]
        yield _Block(scores[known], np.full(len(found), positive, np.float32), found)


def _joined(blocks: Sequence[_Block]) -> _Block:
    parts = [(block.scores, block.positive, block.hidden) for block in blocks]
    scores, positive, hidden = (np.concatenate(each) for each in zip(*parts, strict=True))
    return _Block(scores, positive, hidden)
