"""All that can be looked at, opened: a read-only view over queries, negatives, runs, judgements and texts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hardneg.plugin import (
    DataError,
    Document,
    Drops,
    Negatives,
    Progress,
    RankedList,
    StoredCollection,
    Task,
    negatives_files,
    qrels_files,
    run_files,
)
from hardneg_browse.sources import BrowseSources

PAGE = 25
"""Queries a page."""
_WORDS = 8
"""Words of a search that count: the first ones."""


@dataclass(frozen=True)
class QueryMatches:
    """One page of matches. positions: of queries among all; total: how many match. Pages count from 1."""

    positions: Sequence[int]
    total: int
    page: int

    @property
    def pages(self) -> int:
        """How many pages there are, one at least."""
        return max(1, -(-self.total // PAGE))


@dataclass(frozen=True)
class QuerySearch:
    """Queries in their order: ids, and texts beside them, maybe empty ones."""

    query_ids: Sequence[str]
    texts: Sequence[str]

    @cached_property
    def _columns(self) -> tuple[pa.Array, pa.Array]:
        ids, texts = pa.array(self.query_ids, pa.string()), pa.array(self.texts, pa.string())
        return pc.utf8_lower(ids), pc.utf8_lower(texts)

    def page(self, wanted: str, number: int) -> QueryMatches:
        """The queries whose text holds every word, or whose id holds the whole; all of them where nothing is wanted.

        A number beyond the last page gives the last one.
        """
        words = wanted.lower().split()[:_WORDS]
        if not words:
            return self._cut(range(len(self.query_ids)), number)
        ids, texts = self._columns
        positions = pc.indices_nonzero(pc.match_substring(texts, words[0]))
        for word in words[1:]:
            positions = positions.filter(pc.match_substring(texts.take(positions), word))
        of_ids = pc.indices_nonzero(pc.match_substring(ids, wanted.lower().strip()))
        return self._cut(np.union1d(positions.to_numpy(), of_ids.to_numpy()).tolist(), number)

    def _cut(self, positions: Sequence[int], number: int) -> QueryMatches:
        last = max(1, -(-len(positions) // PAGE))
        page = min(max(1, number), last)
        return QueryMatches(positions[(page - 1) * PAGE : page * PAGE], len(positions), page)


TOP = 20
"""How many documents of a run are looked at as if they were mined."""


@dataclass(frozen=True)
class MinedFile:
    """A file of mined negatives; `dropped`: the file of the miner's drops, if it wrote them.

    Raises:
        ArtifactError: one of them is missing, cut off or foreign.
    """

    path: Path
    dropped: Path | None = None

    def __post_init__(self) -> None:
        self._drops, self._file  # noqa: B018 - raises where a file is damaged

    @cached_property
    def _file(self) -> Any:
        return negatives_files.read_negatives(self.path)

    @cached_property
    def _drops(self) -> dict[str, tuple[Any, int]]:
        """The batch and the row of each query id, which stands in the first column."""
        batches = negatives_files.drop_batches(self.dropped) if self.dropped else ()
        return {query_id: (batch, row) for batch in batches for row, query_id in enumerate(batch.column(0).to_pylist())}

    @cached_property
    def query_ids(self) -> Sequence[str]:
        """In row order."""
        return self._file.query_ids  # type: ignore[no-any-return]

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {query_id: row for row, query_id in enumerate(self.query_ids)}

    @cached_property
    def _counts(self) -> Sequence[int]:
        return self._file.counts.tolist()  # type: ignore[no-any-return]

    def count(self, query_id: str) -> int:
        """How many a query has; 0 where it is not there."""
        row = self._rows.get(query_id)
        return 0 if row is None else self._counts[row]

    def negatives(self, query_id: str) -> Negatives | None:
        """Those of a query, with its drops where they are known; None for an unknown query."""
        if (row := self._rows.get(query_id)) is None:
            return None
        mined: Negatives = self._file[row]
        dropped = self._drops.get(query_id)
        return replace(mined, drops=_drops_at(*dropped)) if dropped else mined


def _drops_at(batch: pa.RecordBatch, row: int) -> Drops:
    candidates, doc_ids, reasons = (batch.column(name)[row].as_py() for name in ("candidates", "doc_ids", "reasons"))
    ranks, scores, chosen = (batch.column(name)[row].values.to_numpy() for name in ("ranks", "scores", "chosen"))
    return Drops(candidates, doc_ids, ranks, reasons, scores, chosen)


@dataclass(frozen=True)
class MappedRun:
    """The lists of a run by query, in a file of the form of negatives, so that not all of them are held."""

    lists: MinedFile

    @property
    def query_ids(self) -> Sequence[str]:
        """All of them, in the run's order."""
        return self.lists.query_ids

    def ranked(self, query_id: str) -> RankedList:
        """The list of a query, an empty one where the run has none."""
        found = self.lists.negatives(query_id)
        return RankedList(found.negatives, found.scores) if found else RankedList((), np.empty(0, np.float32))


def map_run(path: Path, target: Path, task: Task) -> MappedRun:
    """Writes a run to `target` in a form that is mapped, and opens it; `task` advances by the query.

    Raises:
        DataError: the run is empty or has a mistake, or the lines of one query do not stand together.
    """

    def rows() -> Iterator[Negatives]:
        for query_id, ranked in run_files.stream_run(path):
            task.advance()
            yield Negatives(query_id, (), ranked.doc_ids, ranked.scores)

    if not negatives_files.write_negatives(target, rows()):
        raise DataError(f"{path}: the run is empty")
    return MappedRun(MinedFile(target))


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
        """How many a query has; 0 where it is not there."""
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


@dataclass(frozen=True)
class Browsed:
    """The opened data.

    lists: negatives by label, the first of them shown where none is named. runs: by label. positives: of each query, by
    the judgements of all splits. collection: None where texts are not known.
    """

    sources: BrowseSources
    lists: Mapping[str, MinedFile | TopOfRun]
    runs: Mapping[str, MappedRun]
    positives: Mapping[str, Sequence[str]] = field(default_factory=dict)
    collection: StoredCollection | None = None

    @cached_property
    def search(self) -> QuerySearch:
        """All queries: those of the split, or, without a collection, those of the lists."""
        if self.collection is not None:
            queries = self.collection.queries(self.sources.split)
            return QuerySearch(queries.query_ids, queries.texts)
        listed = [*(one.query_ids for one in self.lists.values()), *(run.query_ids for run in self.runs.values())]
        ids = list(dict.fromkeys(query_id for names in listed for query_id in names))
        return QuerySearch(ids, [""] * len(ids))

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """The position of each query."""
        return {query_id: position for position, query_id in enumerate(self.search.query_ids)}

    def text(self, query_id: str) -> str:
        """The text of a query; empty where it is not known."""
        position = self.positions.get(query_id)
        return "" if position is None else self.search.texts[position]

    def elsewhere(self, words: str) -> dict[str, int]:
        """How many queries of the splits that this page is not of are found by these words; none are left out."""
        if self.collection is None or not words.strip():
            return {}
        others = (split for split in self.collection.splits if split != self.sources.split)
        queries = {split: self.collection.queries(split) for split in others}
        totals = {
            split: QuerySearch(each.query_ids, each.texts).page(words, 1).total for split, each in queries.items()
        }
        return {split: total for split, total in totals.items() if total}

    def documents(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        """The documents that the collection has, by id."""
        if self.collection is None:
            return {}
        rows = self.collection.corpus.rows(doc_ids)
        return {document.doc_id: document for document in self.collection.corpus.documents_at(rows[rows >= 0])}

    def negatives(self, label: str, query_id: str) -> Negatives | None:
        """Those of a query in one list; None where it is not there."""
        return self.lists[label].negatives(query_id)

    def positives_of(self, query_id: str, label: str | None = None) -> list[str]:
        """Those judged relevant, then those that the negatives were mined with besides."""
        mined = self.negatives(label, query_id) if label else None
        return list(dict.fromkeys([*self.positives.get(query_id, ()), *(mined.positives if mined else ())]))


@contextmanager
def opened(sources: BrowseSources, progress: Progress) -> Iterator[Browsed]:
    """Opens the files; runs are written to a temporary folder in a form that is mapped.

    Raises:
        ArtifactError, DataError: a file is missing, cut off or malformed.
    """
    with TemporaryDirectory(prefix="hardneg-browse-") as folder:
        collection = StoredCollection.open(sources.dataset) if sources.dataset else None
        if collection is not None and sources.split not in collection.splits:
            known = ", ".join(collection.splits) or "none"
            raise DataError(f"{{split}} {sources.split}: the dataset has no such split; it has {known}", "split")
        known_positives = qrels_files.positives(collection.all_qrels()) if collection else {}
        runs = {}
        for number, (label, path) in enumerate(sources.runs.items()):
            with progress.task(f"reading {label}", None, "queries") as task:
                runs[label] = map_run(path, Path(folder) / f"{number}.arrow", task)
        mined: dict[str, MinedFile | TopOfRun] = {
            label: MinedFile(path, sources.dropped.get(label)) for label, path in sources.negatives.items()
        }
        tops: dict[str, MinedFile | TopOfRun] = {label: TopOfRun(run, known_positives) for label, run in runs.items()}
        yield Browsed(sources, mined or tops, runs, known_positives, collection)
