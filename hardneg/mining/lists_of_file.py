"""Negatives that another program mined: lists to mine from, as those of a run."""

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from hardneg.formats.collection import StoredCollection
from hardneg.formats.form_names import OWN
from hardneg.formats.forms import TextLookup, read_form
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.formats.runs import EMPTY, QueryLists, lists_side_by_side
from hardneg.records import NEGATIVES, DataError, RankedList

LABEL = "file"
"""The label of the lists of the file, beside those of runs."""


class ListsOfFile:
    """The negatives of each query in a file of any form; texts are looked up in the collection.

    A file of texts is held in memory, as ids. `counts`: what was not found, by reason, and `queries not in the file`.

    Raises:
        UsageError: the form is unknown, or the file's ending is not one of its own.
        DataError: a row is not of the form, or no query of the file is of the split.
    """

    def __init__(self, path: Path, form: str, collection: StoredCollection, split: str) -> None:
        self.path, self.corpus = path, collection.corpus
        queries = collection.queries(split)
        lookup = TextLookup(queries, collection.corpus)
        if form == OWN:
            self.negatives = read_negatives(path)
        else:
            with TemporaryDirectory() as folder:
                write_negatives(Path(folder) / NEGATIVES, read_form(form, path, lookup))
                self.negatives = read_negatives(Path(folder) / NEGATIVES, whole=True)
        self.rows = {query_id: row for row, query_id in enumerate(self.negatives.query_ids)}
        known = self.rows.keys() & set(queries.query_ids)
        if not known:
            raise DataError(f"{path}: no query is of split {split}: name its split, or its collection")
        absent = {
            "queries not in the split": len(self.rows) - len(known),
            "queries not in the file": len(queries) - len(known),
        }
        self.counts = Counter({reason: count for reason, count in (absent | lookup.counts).items() if count})

    def listed(self, query_ids: Sequence[str], runs: dict[str, Path]) -> Iterator[QueryLists]:
        """Each query with its list in the file, whose scores may be nan, and after it those in runs.

        Raises:
            DataError: a document is not in the corpus, or what `lists_side_by_side` raises it for.
        """
        for query_id, lists in lists_side_by_side(runs, query_ids):
            ranked = EMPTY
            if (row := self.rows.get(query_id)) is not None:
                item, what = self.negatives[row], f"{self.path}: negative of query {query_id}:"
                self.corpus.known_rows(item.negatives, what, "name the file's own collection")
                ranked = RankedList(item.negatives, np.asarray(item.scores, np.float32))
            yield query_id, {LABEL: ranked, **lists}
