"""One pass over all queries in the background: suspicious negatives, margins, overlaps; and the drift of trainings."""

import heapq
import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import RankedList
from hardneg_browse.browsed import Browsed
from hardneg_browse.query_page import Evidence, SuspectedNegative

KEPT = 1_000
"""The most suspicious negatives that are remembered of each list."""
_BLOCK = 16
_LISTS = 4
_PAUSE = 0.25
BARS = 24


@dataclass(frozen=True)
class MarginHistogram:
    """edges: float64 [bars + 1], ascending, zero among them where margins lie on both sides; counts: int64 [bars]."""

    edges: NDArray[np.float64]
    counts: NDArray[np.int64]

    @property
    def total(self) -> int:
        """How many margins there are."""
        return int(self.counts.sum())

    @property
    def below_zero(self) -> int:
        """How many negatives score higher than every positive of their query, as far as the bars show."""
        return int(self.counts[self.edges[1:] <= 0].sum())


def margin_histogram(parts: Sequence[NDArray[np.float32]], bars: int = BARS) -> MarginHistogram | None:
    """Bars of equal width over all margins, with an edge at zero; None where there is no margin.

    A margin of exactly zero counts to the bar above.
    """
    values = np.concatenate([np.empty(0, np.float32), *parts]).astype(np.float64)
    if not len(values):
        return None
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    width = (high - low or 1.0) / max(1, bars - 1)
    first, last = int(np.floor(low / width)), max(1, int(np.ceil(high / width)))
    edges: NDArray[np.float64] = np.arange(first, last + 1) * np.float64(width)
    bins = np.clip(np.searchsorted(edges, values, "right") - 1, 0, len(edges) - 2)
    return MarginHistogram(edges, np.bincount(bins, minlength=len(edges) - 1))


@dataclass
class ListSurvey:
    """The results for one list.

    margins: by run, of each query float32 [n], the best positive's score less that of each negative there.
    unmargined: by run, how many negatives have no margin, since it or every positive is not in the list.
    """

    negatives: int = 0
    worst: list[tuple[float, int, int, SuspectedNegative]] = field(default_factory=list)
    suspected: int = 0
    margins: dict[str, list[NDArray[np.float32]]] = field(default_factory=dict)
    unmargined: dict[str, int] = field(default_factory=dict)

    def add(self, position: int, suspects: Sequence[SuspectedNegative]) -> None:
        """Add the negatives of the query at a position; of equal scores the earlier comes first."""
        self.negatives += len(suspects)
        for number, item in enumerate(suspects):
            if item.score > 0:
                self.suspected += 1
                entry = (item.score, -position, -number, item)
                (heapq.heappush if len(self.worst) < KEPT else heapq.heappushpop)(self.worst, entry)

    def most_suspicious(self) -> list[SuspectedNegative]:
        """Those that are remembered, the most suspicious first."""
        return [item for *_, item in sorted(list(self.worst), key=lambda entry: entry[:3], reverse=True)]


def margins(negatives: Sequence[str], positives: Sequence[str], ranked: RankedList) -> NDArray[np.float32]:
    """The best positive's score less that of each negative, float32 [n]; of those that the list has, in their order."""
    scores = dict(zip(ranked.doc_ids, ranked.scores.tolist(), strict=True))
    best = max((scores[doc_id] for doc_id in positives if doc_id in scores), default=None)
    if best is None:
        return np.empty(0, np.float32)
    return np.array([best - scores[doc_id] for doc_id in negatives if doc_id in scores], np.float32)


class Survey:
    """The pass, in a thread of its own; its results so far can be read at any time."""

    def __init__(self, browsed: Browsed) -> None:
        self._browsed = browsed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go, name="survey", daemon=True)
        self.total = len(browsed.search.query_ids)
        self.done = 0
        self.lists = {label: ListSurvey() for label in browsed.lists}
        self.shared = {pair: [0.0, 0] for pair in combinations(list(browsed.lists)[:_LISTS], 2)}

    @property
    def finished(self) -> bool:
        """Whether all queries were gone through."""
        return self.done >= self.total

    def overlap(self, first: str, second: str) -> tuple[float, int] | None:
        """The mean part of a query's negatives that both lists have, of all of either, and over how many queries."""
        parts, count = self.shared.get((first, second)) or self.shared.get((second, first)) or (0.0, 0)
        return (parts / count, int(count)) if count else None

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Ends it before its time, and waits until it has."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def run(self) -> "Survey":
        """The whole pass, now, in the caller's thread."""
        for _ in self._steps():
            pass
        return self

    def _go(self) -> None:
        """Rests between blocks, so that pages come quickly meanwhile."""
        began = time.monotonic()
        for done in self._steps():
            if self._stopped.is_set():
                return
            if done % _BLOCK == 0:
                time.sleep(_PAUSE * (time.monotonic() - began))
                began = time.monotonic()

    def _steps(self) -> Iterator[int]:
        for position, query_id in enumerate(self._browsed.search.query_ids):
            self._look_at(position, query_id)
            self.done = position + 1
            yield self.done

    def _look_at(self, position: int, query_id: str) -> None:
        entries = {label: self._browsed.negatives(label, query_id) for label in self.lists}
        mined = {label: item for label, item in entries.items() if item is not None}
        if not mined:
            return
        known = {label: self._browsed.positives_of(query_id, label) for label in mined}
        ids = [doc_id for label, item in mined.items() for doc_id in (*known[label], *item.negatives)]
        documents = self._browsed.documents(list(dict.fromkeys(ids)))
        evidence = Evidence.of(self._browsed, query_id, documents)
        for label, item in mined.items():
            listed = self.lists[label]
            listed.add(position, evidence.suspected(known[label], item.negatives))
            for system, ranked in evidence.lists.items():
                values = margins(item.negatives, known[label], ranked)
                listed.margins.setdefault(system, []).append(values)
                listed.unmargined[system] = listed.unmargined.get(system, 0) + len(item.negatives) - len(values)
        for pair, sums in self.shared.items():
            if all(label in mined for label in pair):
                first, second = (set(mined[label].negatives) for label in pair)
                if first or second:
                    sums[0] += len(first & second) / len(first | second)
                    sums[1] += 1


Curve = list[tuple[float, float]]
STAYED = "kept of a query's negatives at a refresh (share)"
_NAMES = {
    "overlap": "overlap of fixed negatives with the real hard ones (share)",
    "best_rank": "best rank of fixed negatives (mean)",
    "best_rank_median": "best rank of fixed negatives (median)",
}


@dataclass(frozen=True)
class TrainingDrift:
    """The measures of one training by name, as (step, value), and its number of refreshes."""

    label: str
    refreshes: int
    curves: Mapping[str, Curve]


def drifts(histories: Mapping[str, Path]) -> list[TrainingDrift]:
    """The drift of the trainings that measured any."""
    trainings = []
    for label, path in histories.items():
        rows = list(_records(path))
        first = next((row["step"] for row in rows if "loss" in row), None)
        curves: dict[str, Curve] = {}
        count, used = 0, None
        for row in rows:
            if (number := row.get("refresh")) not in (None, used):
                count, used = count + (row["step"] != first), number
            values = {STAYED: row.get("kept")}
            for name, value in (row.get("drift") or {}).items():
                values[_NAMES.get(name, f"{name} of the watched queries")] = value
            for name, value in values.items():
                if isinstance(value, int | float) and value == value:
                    curves.setdefault(name, []).append((float(row["step"]), float(value)))
        trainings.append(TrainingDrift(label, count, curves))
    return [item for item in trainings if item.curves]


def _records(path: Path) -> Iterator[dict[str, Any]]:
    """The whole records of a history that have a step; a line that a fault has cut off is left out."""
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        with suppress(ValueError):
            record = json.loads(line)
            if isinstance(record, dict) and isinstance(record.get("step"), int | float):
                yield record
