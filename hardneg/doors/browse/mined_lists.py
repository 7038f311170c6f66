"""Negatives by query: from a mined file, or the top of a run without the positives."""

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
        """The negatives of a query, with its drops where they are known; None for an unknown query."""


@dataclass(frozen=True)
class MinedFile:
    """A file of mined negatives; `dropped`: the miner's drops, if it wrote them."""

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
        entry = self.file[row]
        return replace(entry, drops=self.dropped.of(query_id)) if self.dropped else entry


@dataclass(frozen=True)
class DropRows:
    """A miner's drops by query."""

    positions: Mapping[str, tuple[int, int]]
    batches: Sequence[object]

    @classmethod
    def open(cls, path: Path) -> "DropRows":
        """Maps the file. Raises ArtifactError where it is missing, cut off or foreign."""
        batches = drop_batches(path)
        positions = {
            query_id: (number, row)
            for number, batch in enumerate(batches)
            for row, query_id in enumerate(batch.column(0).to_pylist())
        }
        return cls(positions, batches)

    def of(self, query_id: str) -> Drops | None:
        """The drops of a query."""
        position = self.positions.get(query_id)
        return None if position is None else drops_at(self.batches[position[0]], position[1])[1]


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
        mined = self.negatives(query_id)
        return len(mined.negatives) if mined else 0

    def negatives(self, query_id: str) -> Negatives | None:
        """Those of a query."""
        ranked, known = self.run.ranked(query_id), self.positives.get(query_id, ())
        if not ranked.doc_ids:
            return None
        ranks = [rank for rank, doc_id in enumerate(ranked.doc_ids) if doc_id not in known][: self.top]
        scores = np.asarray(ranked.scores, np.float32)[ranks]
        return Negatives(query_id, known, [ranked.doc_ids[rank] for rank in ranks], scores)
