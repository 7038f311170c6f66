"""Negatives that another program mined: lists to mine from, as those of a run, and what should not be in them."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from hardneg.formats.collection import StoredCollection
from hardneg.formats.export.catalogue import OWN
from hardneg.formats.export.forms import TextLookup, read_form
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.formats.qrels import positives
from hardneg.formats.runs import EMPTY, QueryLists, lists_side_by_side
from hardneg.mining.filters import MiningTexts
from hardneg.records.errors import DataError
from hardneg.records.layout import NEGATIVES
from hardneg.records.types import RankedList

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


@dataclass(frozen=True)
class FileFaults:
    """What is counted in a file of negatives, of the queries of one split.

    queries: with a negative. negatives: theirs, all. labelled: negatives that the qrels call relevant to their own
    query. withheld: positives that the dataset withholds from these queries, such as planted halves; taken: of those,
    how many the file has as a negative. elsewhere: by other split, negatives that are relevant to its queries; seen: to
    those of any. left_out: what of the file is not counted, by reason.
    """

    queries: int
    negatives: int
    labelled: int
    withheld: int
    taken: int
    elsewhere: Mapping[str, int]
    seen: int
    left_out: Mapping[str, int]

    def to_json(self) -> dict[str, Any]:
        """Counts and shares: `taken` of the withheld positives, None where there are none; the others of negatives."""
        shares = {
            "labelled_share": self.labelled / self.negatives,
            "seen_share": self.seen / self.negatives,
            "taken_share": self.taken / self.withheld if self.withheld else None,
        }
        return {**asdict(self), **shares}


def file_faults(path: Path, form: str, collection: StoredCollection, split: str) -> FileFaults:
    """Counts the faults of a file of negatives, in one pass.

    Raises:
        UsageError, DataError: as `ListsOfFile`, or there are no negatives of these queries in the file.
    """
    lists, counts = ListsOfFile(path, form, collection, split), Counter[str]()
    known, hidden = positives(collection.all_qrels()), positives(collection.withheld())
    others, query_ids = MiningTexts(collection, split).positives_elsewhere, collection.queries(split).query_ids
    anywhere = frozenset[str]().union(*others.values())
    for query_id, ranked in lists.listed(query_ids, {}):
        negatives = set(ranked[LABEL].doc_ids)
        counts["queries"] += bool(negatives)
        counts["negatives"] += len(negatives)
        counts["labelled"] += len(negatives.intersection(known.get(query_id, ())))
        counts["withheld"] += len(hidden.get(query_id, ()))
        counts["taken"] += len(negatives.intersection(hidden.get(query_id, ())))
        counts.update({f"of {name}": len(negatives & documents) for name, documents in others.items()})
        counts["seen"] += len(negatives & anywhere)
    if not counts["negatives"]:
        reasons = "; ".join(f"{reason}: {count}" for reason, count in lists.counts.items())
        problem = f"has no negatives of queries of split {split}{f' ({reasons})' if reasons else ''}"
        raise DataError(f"{path}: {problem}: name its own collection and form")
    elsewhere = {name: counts[f"of {name}"] for name in others}
    own = {name: counts[name] for name in ("queries", "negatives", "labelled", "withheld", "taken", "seen")}
    return FileFaults(**own, elsewhere=elsewhere, left_out=dict(sorted(lists.counts.items())))
