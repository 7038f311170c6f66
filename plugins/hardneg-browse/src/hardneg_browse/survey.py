"""One pass over all queries in the background: the most suspicious negatives."""

import heapq
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hardneg_browse.browsed import Browsed
from hardneg_browse.query_page import Evidence, SuspectedNegative

KEPT = 1_000
"""The most suspicious negatives that are remembered of each list."""
_BLOCK = 16
_PAUSE = 0.25


@dataclass
class ListSurvey:
    """The results for one list."""

    negatives: int = 0
    worst: list[tuple[float, int, int, SuspectedNegative]] = field(default_factory=list)
    suspected: int = 0

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


class Survey:
    """The pass, in a thread of its own; its results so far can be read at any time."""

    def __init__(self, browsed: Browsed) -> None:
        self._browsed = browsed
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._go, name="survey", daemon=True)
        self.total = len(browsed.search.query_ids)
        self.done = 0
        self.lists = {label: ListSurvey() for label in browsed.lists}

    @property
    def finished(self) -> bool:
        """Whether all queries were gone through."""
        return self.done >= self.total

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
        entries = {label: one.negatives(query_id) for label, one in self._browsed.lists.items()}
        mined = {label: item.negatives for label, item in entries.items() if item is not None}
        known = {label: self._browsed.positives_of(query_id, label) for label in mined}
        ids = [doc_id for label, doc_ids in mined.items() for doc_id in (*known[label], *doc_ids)]
        evidence = Evidence.of(self._browsed, query_id, self._browsed.documents(list(dict.fromkeys(ids))))
        for label, doc_ids in mined.items():
            self.lists[label].add(position, evidence.suspected(known[label], doc_ids))
