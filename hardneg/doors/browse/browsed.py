"""All that can be looked at, opened: a read-only view over queries, negatives, runs, judgements and texts."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory

from hardneg.doors.browse.mapped_runs import MappedRun, map_run
from hardneg.doors.browse.mined_lists import ListedNegatives, MinedFile, TopOfRun
from hardneg.doors.browse.query_search import QuerySearch
from hardneg.doors.browse.sources import BrowseSources
from hardneg.formats.collection import StoredCollection
from hardneg.formats.qrels import positives
from hardneg.records.errors import DataError
from hardneg.records.types import Document, Negatives
from hardneg.runtime.progress import Progress


@dataclass(frozen=True)
class Browsed:
    """The opened data.

    lists: negatives by label, the first of them shown where none is named. runs: by label. positives: of each query, by
    the judgements of all splits. collection: None where texts are not known.
    """

    sources: BrowseSources
    lists: Mapping[str, ListedNegatives]
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
        known_positives = positives(collection.all_qrels()) if collection else {}
        runs = dict(_mapped(sources.runs, Path(folder), progress))
        mined: dict[str, ListedNegatives] = {
            label: MinedFile.open(path, sources.dropped.get(label)) for label, path in sources.negatives.items()
        }
        tops: dict[str, ListedNegatives] = {label: TopOfRun(run, known_positives) for label, run in runs.items()}
        yield Browsed(sources, mined or tops, runs, known_positives, collection)


def _mapped(runs: Mapping[str, Path], folder: Path, progress: Progress) -> Iterator[tuple[str, MappedRun]]:
    for number, (label, path) in enumerate(runs.items()):
        with progress.task(f"reading {label}", None, "queries") as task:
            yield label, map_run(path, folder / f"{number}.arrow", task)
