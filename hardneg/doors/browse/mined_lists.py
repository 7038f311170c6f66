"""Negatives by query: from a file that a miner wrote, or the top of a run, of which positives are left out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from hardneg.doors.browse.mapped_runs import MappedRun
from hardneg.formats.negatives import NegativesFile, drop_batches, drops_at, read_negatives
from hardneg.records.types import Drops, Negatives

TOP = 20
"""How many documents of a run are looked at as if they were mined."""


class ListedNegatives(Protocol):
    """Negatives by query."""

    @property
    def query_ids(self) -> Sequence[str]:
        """The queries that have some, in order."""

    def count(self, query_id: str) -> int:
        """How many a query has; 0 where it is not there."""

    def negatives(self, query_id: str) -> Negatives | None:
        """Those of a query, with what was dropped where that is known; None where the query is not there."""


@dataclass(frozen=True)
class MinedFile:
    """What a miner wrote; `dropped`: what it left out, where it told."""

    file: NegativesFile
    dropped: "DropRows | None" = None

    @classmethod
    def open(cls, path: Path, dropped: Path | None) -> "MinedFile":
        """Maps the files. Raises ArtifactError where one is missing, cut off or foreign."""
        return cls(read_negatives(path), DropRows.open(dropped) if dropped else None)

    @cached_property
    def query_ids(self) -> Sequence[str]:
        """In row order."""
        return self.file.query_ids

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {query_id: row for row, query_id in enumerate(self.query_ids)}

    @cached_property
    def _counts(self) -> list[int]:
        counts: list[int] = self.file.counts.tolist()
        return counts

    def count(self, query_id: str) -> int:
        """How many a query has."""
        row = self._rows.get(query_id)
        return 0 if row is None else self._counts[row]

    def negatives(self, query_id: str) -> Negatives | None:
        """Those of a query."""
        row = self._rows.get(query_id)
        if row is None:
            return None
        found = self.file[row]
        return replace(found, drops=self.dropped.of(query_id)) if self.dropped else found


@dataclass(frozen=True)
class DropRows:
    """What a miner left out, by query."""

    places: Mapping[str, tuple[int, int]]
    batches: Sequence[object]

    @classmethod
    def open(cls, path: Path) -> "DropRows":
        """Maps the file. Raises ArtifactError where it is missing, cut off or foreign."""
        batches = drop_batches(path)
        places = {
            query_id: (number, row)
            for number, batch in enumerate(batches)
            for row, query_id in enumerate(batch.column(0).to_pylist())
        }
        return cls(places, batches)

    def of(self, query_id: str) -> Drops | None:
        """What was dropped of a query's list."""
        place = self.places.get(query_id)
        return None if place is None else drops_at(self.batches[place[0]], place[1])[1]


@dataclass(frozen=True)
class TopOfRun:
    """The first `top` documents of each list of a run, its query's positives left out."""

    run: MappedRun
    positives: Mapping[str, Sequence[str]]
    top: int = TOP

    @property
    def query_ids(self) -> Sequence[str]:
        """In the run's order."""
        return self.run.query_ids

    def count(self, query_id: str) -> int:
        """How many a query has."""
        found = self.negatives(query_id)
        return len(found.negatives) if found else 0

    def negatives(self, query_id: str) -> Negatives | None:
        """Those of a query."""
        ranked, known = self.run.ranked(query_id), self.positives.get(query_id, ())
        if not ranked.doc_ids:
            return None
        places = [place for place, doc_id in enumerate(ranked.doc_ids) if doc_id not in known][: self.top]
        scores = np.asarray(ranked.scores, np.float32)[places]
        return Negatives(query_id, known, [ranked.doc_ids[place] for place in places], scores)
