"""What is counted in a file of negatives, by hand on a few lines."""

from pathlib import Path

import numpy as np
from hardneg_advice.bench_rows import file_faults

from hardneg.datasets.held_out import Withheld
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.negatives import write_negatives
from hardneg.records import Document, Judgement, Negatives, Query
from hardneg.runtime import Silent

RELEVANT = {"train": {"q1": "d1", "q2": "d2"}, "dev": {"q3": "d3"}, "test": {"q4": "d4", "q5": "d3"}}


class Collection:
    """Five queries of three splits, one relevant document each; d3 is relevant in two splits, d5 in none."""

    def documents(self):
        texts = ["one two three four", "five six seven eight", "nine ten eleven twelve", "a b c d", "e f g h"]
        return (Document(f"d{number}", text, "") for number, text in enumerate(texts, 1))

    def splits(self):
        return list(RELEVANT)

    def queries(self, split):
        return (Query(name, f"text of {name}") for name in RELEVANT[split])

    def qrels(self, split):
        return (Judgement(query, document, 1) for query, document in RELEVANT[split].items())

    def answers(self, split):
        return iter(())

    def notes(self):
        return ()


def stored(folder: Path, collection) -> StoredCollection:
    write_collection(collection, folder, Silent())
    return StoredCollection.open(folder)


def written(path: Path, **negatives: list[str]) -> Path:
    rows = [Negatives(name, [], ids, np.full(len(ids), np.nan, np.float32)) for name, ids in negatives.items()]
    write_negatives(path, rows)
    return path


def test_labelled_negatives_and_those_of_other_splits_are_counted(tmp_path: Path) -> None:
    """Of six negatives of two queries one is the query's own positive, and d3, twice, and d4 are of other splits."""
    file = written(tmp_path / "n.arrow", q1=["d1", "d3", "d4"], q2=["d3", "d5", "d1"], q9=["d1"])
    faults = file_faults(file, "hardneg", stored(tmp_path / "stored", Collection()))
    assert faults == {
        "queries": 2,
        "negatives": 6,
        "labelled": 1,
        "withheld": 0,
        "taken": 0,
        "elsewhere": {"dev": 2, "test": 3},
        "seen": 3,
        "seen_share": 0.5,
        "left_out": {"queries not in the split": 1},
        "labelled_share": 1 / 6,
        "taken_share": None,
    }


def test_halves_that_a_file_takes_are_counted(tmp_path: Path) -> None:
    """Each training query has a planted half; the file takes that of the second alone."""
    collection = stored(tmp_path / "stored", Withheld(halves=True).of(Collection()))
    halves = {query_id: next(iter(judged)) for query_id, judged in collection.withheld().items()}
    assert set(halves) == {"q1", "q2"}
    file = written(tmp_path / "n.arrow", q1=[halves["q2"], "d5"], q2=[halves["q2"]])
    faults = file_faults(file, "hardneg", collection)
    assert (faults["withheld"], faults["taken"], faults["taken_share"]) == (2, 1, 0.5)
