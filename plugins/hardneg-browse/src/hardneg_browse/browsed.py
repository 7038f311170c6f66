"""A read-only view of queries, negatives, runs, judgements and texts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hardneg.plugin import (
    Document,
    Negatives,
    RankedList,
    StoredCollection,
    errors,
    negatives_files,
    qrels_files,
    records,
    run_files,
    runtime,
)
from hardneg_browse.sources import BrowseSources

PAGE = 25
"""Number of queries, or of suspicious negatives, on a page."""
_WORDS = 8
"""Maximum number of search words; further words are ignored."""


@dataclass(frozen=True)
class QueryMatches:
    """One page of matching queries. positions: row numbers. total: matches on all pages. page: its number, from 1."""

    positions: Sequence[int]
    total: int
    page: int

    @property
    def pages(self) -> int:
        """Number of pages, at least one."""
        return max(1, -(-self.total // PAGE))


@dataclass(frozen=True)
class QuerySearch:
    """Queries to search. texts: the text of each query, in the order of `query_ids`; empty if unknown."""

    query_ids: Sequence[str]
    texts: Sequence[str]

    @cached_property
    def _lower(self) -> list[tuple[str, str]]:
        return [(one.lower(), text.lower()) for one, text in zip(self.query_ids, self.texts, strict=True)]

    def page(self, wanted: str, number: int) -> QueryMatches:
        """Return page `number` of the queries whose text has every word of `wanted`, or whose id contains `wanted`.

        Case is ignored. If `wanted` is blank, all queries match. If the page does not exist, return the nearest one.
        """
        words, whole = wanted.lower().split()[:_WORDS], wanted.lower().strip()
        found: Sequence[int] = range(len(self.query_ids))
        if words:
            lower = enumerate(self._lower)
            found = [at for at, (one, text) in lower if whole in one or all(word in text for word in words)]
        page = min(max(1, number), max(1, -(-len(found) // PAGE)))
        return QueryMatches(found[(page - 1) * PAGE : page * PAGE], len(found), page)


TOP = 20
"""Maximum number of documents per query that are shown as negatives from a run."""


class MinedFile:
    """An open file of mined negatives, or of a run in the same format. dropped: the file of dropped candidates.

    Raises:
        ArtifactError: a file is missing, truncated or in another format.
    """

    def __init__(self, path: Path, dropped: Path | None = None) -> None:
        self._file = negatives_files.read_negatives(path)
        self.query_ids: Sequence[str] = self._file.query_ids
        self._rows = {query_id: row for row, query_id in enumerate(self.query_ids)}
        self._counts: Sequence[int] = self._file.counts.tolist()
        batches = negatives_files.drop_batches(dropped) if dropped else ()
        self._drops = {one: (batch, row) for batch in batches for row, one in enumerate(batch.column(0).to_pylist())}

    def count(self, query_id: str) -> int:
        """Return the number of a query's negatives; 0 for an unknown query."""
        row = self._rows.get(query_id)
        return 0 if row is None else self._counts[row]

    def negatives(self, query_id: str) -> Negatives | None:
        """Return a query's negatives, and its dropped candidates if known; None for an unknown query."""
        if (row := self._rows.get(query_id)) is None:
            return None
        mined: Negatives = self._file[row]
        dropped = self._drops.get(query_id)
        return replace(mined, drops=_drops_at(*dropped)) if dropped else mined

    def ranked(self, query_id: str) -> RankedList:
        """Return a query's negatives and scores as a ranked list; empty for an unknown query."""
        found = self.negatives(query_id)
        return RankedList(found.negatives, found.scores) if found else RankedList((), np.empty(0, np.float32))


def _drops_at(batch: Any, row: int) -> records.Drops:
    candidates, doc_ids, reasons = (batch.column(name)[row].as_py() for name in ("candidates", "doc_ids", "reasons"))
    ranks, scores, chosen = (batch.column(name)[row].values.to_numpy() for name in ("ranks", "scores", "chosen"))
    return records.Drops(candidates, doc_ids, ranks, reasons, scores, chosen)


def map_run(path: Path, target: Path, task: runtime.Task) -> MinedFile:
    """Copy a run to `target` in a memory-mapped format and open the copy; `task` advances once per query.

    Raises:
        DataError: the run is empty or malformed, or the lines of a query are not consecutive.
    """

    def rows() -> Iterator[Negatives]:
        for query_id, ranked in run_files.stream_run(path):
            task.advance()
            yield Negatives(query_id, (), ranked.doc_ids, ranked.scores)

    if not negatives_files.write_negatives(target, rows()):
        raise errors.DataError(f"{path}: the run is empty")
    return MinedFile(target)


@dataclass(frozen=True)
class TopOfRun:
    """Negatives from a run: the first `TOP` documents per query that are not positives. positives: by query id."""

    run: MinedFile
    positives: Mapping[str, Sequence[str]]

    @property
    def query_ids(self) -> Sequence[str]:
        """Ids of the run's queries, in the order of the run."""
        return self.run.query_ids

    def count(self, query_id: str) -> int:
        """Return the number of a query's negatives; 0 for an unknown query."""
        mined = self.negatives(query_id)
        return len(mined.negatives) if mined else 0

    def negatives(self, query_id: str) -> Negatives | None:
        """Return a query's top documents, without positives, as negatives; None if the run has none."""
        ranked, known = self.run.ranked(query_id), self.positives.get(query_id, ())
        if not ranked.doc_ids:
            return None
        ranks = [rank for rank, doc_id in enumerate(ranked.doc_ids) if doc_id not in known][:TOP]
        scores = np.asarray(ranked.scores, np.float32)[ranks]
        return Negatives(query_id, known, [ranked.doc_ids[rank] for rank in ranks], scores)


@dataclass(frozen=True)
class Browsed:
    """The opened data that the pages show.

    lists: negatives by label; the first is the default. runs: runs by label. positives: document ids by query id, from
    the judgements of all splits. collection: None if texts are unavailable. first: maximum number of queries, or None.
    """

    sources: BrowseSources
    lists: Mapping[str, MinedFile | TopOfRun]
    runs: Mapping[str, MinedFile]
    positives: Mapping[str, Sequence[str]] = field(default_factory=dict)
    collection: StoredCollection | None = None
    first: int | None = None

    @cached_property
    def search(self) -> QuerySearch:
        """Queries of the split or, without a collection, of all files. `first`: only the first ones with negatives."""
        if self.collection is not None:
            queries = self.collection.queries(self.sources.split)
            found = QuerySearch(queries.query_ids, queries.texts)
        else:
            listed = [*(one.query_ids for one in self.lists.values()), *(run.query_ids for run in self.runs.values())]
            ids = list(dict.fromkeys(query_id for names in listed for query_id in names))
            found = QuerySearch(ids, [""] * len(ids))
        if self.first is None:
            return found
        mined = (at for at, one in enumerate(found.query_ids) if any(part.count(one) for part in self.lists.values()))
        rows = list(islice(mined, self.first))
        return QuerySearch([found.query_ids[at] for at in rows], [found.texts[at] for at in rows])

    @cached_property
    def positions(self) -> Mapping[str, int]:
        """Row number of each query in `search`, by query id."""
        return {query_id: position for position, query_id in enumerate(self.search.query_ids)}

    def text(self, query_id: str) -> str:
        """Return the text of a query, or an empty string if it is unknown."""
        position = self.positions.get(query_id)
        return "" if position is None else self.search.texts[position]

    def documents(self, doc_ids: Sequence[str]) -> dict[str, Document]:
        """Return the documents with these ids, by id. Unknown ids are omitted; without a collection, all are."""
        if self.collection is None:
            return {}
        rows = self.collection.corpus.rows(doc_ids)
        return {document.doc_id: document for document in self.collection.corpus.documents_at(rows[rows >= 0])}

    def positives_of(self, query_id: str, label: str | None = None) -> list[str]:
        """Return the ids of documents judged relevant to a query, then its further positives in the list `label`."""
        mined = self.lists[label].negatives(query_id) if label else None
        return list(dict.fromkeys([*self.positives.get(query_id, ()), *(mined.positives if mined else ())]))


@contextmanager
def opened(sources: BrowseSources, progress: runtime.Progress) -> Iterator[Browsed]:
    """Open the files during a `with` block; runs are converted into memory-mapped files in a temporary folder.

    Raises:
        ArtifactError, DataError: a file is missing, truncated or malformed.
    """
    with TemporaryDirectory(prefix="hardneg-browse-") as folder:
        collection = StoredCollection.open(sources.dataset) if sources.dataset else None
        if collection is not None and sources.split not in collection.splits:
            known = ", ".join(collection.splits) or "none"
            raise errors.DataError(f"{{split}} {sources.split}: no such split; available: {known}", "split")
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
