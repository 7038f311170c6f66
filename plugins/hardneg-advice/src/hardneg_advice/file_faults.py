"""What should not be in a file of negatives, counted."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hardneg.plugin import DataError, ListsOfFile, StoredCollection, qrels_files

_SPLIT = "train"
_LABEL = "file"


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


def file_faults(path: Path, form: str, collection: StoredCollection, split: str = _SPLIT) -> FileFaults:
    """Counts the faults of a file of negatives, in one pass.

    Raises:
        UsageError, DataError: as `ListsOfFile`, or there are no negatives of these queries in the file.
    """
    lists, counts = ListsOfFile(path, form, collection, split), Counter[str]()
    known, hidden = qrels_files.positives(collection.all_qrels()), qrels_files.positives(collection.withheld())
    others = {each: found for each in collection.splits if each != split and (found := _relevant(collection, each))}
    query_ids = collection.queries(split).query_ids
    anywhere = frozenset[str]().union(*others.values())
    for query_id, ranked in lists.listed(query_ids, {}):
        negatives = set(ranked[_LABEL].doc_ids)
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


def _relevant(collection: StoredCollection, split: str) -> frozenset[str]:
    """All documents that are relevant to a query of a split."""
    return frozenset().union(*qrels_files.positives(collection.qrels(split)).values())
