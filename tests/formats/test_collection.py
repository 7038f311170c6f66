"""The stored collection: what is written, what is left out, what is refused."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from noted import Notes

from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.formats.source_files import order_splits
from hardneg.records import ArtifactError, DataError, Document, Judgement, Query
from hardneg.runtime import Silent


@dataclass
class Made:
    """A collection from literals."""

    docs: Sequence[tuple[str, str]] = (("d1", "one"), ("d2", "two"), ("d3", "three"))
    asked: dict[str, list[tuple[str, str]]] = field(default_factory=lambda: {"train": [("q2", "b"), ("q1", "a")]})
    judged: dict[str, list[tuple[str, str, int]]] = field(default_factory=dict)

    def documents(self) -> Iterator[Document]:
        return (Document(*doc) for doc in self.docs)

    def splits(self) -> Sequence[str]:
        return list(self.asked)

    def queries(self, split: str) -> Iterator[Query]:
        return (Query(*query) for query in self.asked[split])

    def qrels(self, split: str) -> Iterator[Judgement]:
        return (Judgement(*judgement) for judgement in self.judged.get(split, []))

    def notes(self) -> Sequence[str]:
        return ["3 rows had no text"]


def test_round_trip_with_counts_and_notes(tmp_path):
    made = Made(
        asked={"train": [("q2", "b"), ("q1", "a")], "test": [("q3", "c"), ("q1", "a")], "dev": []},
        judged={
            "train": [("q1", "d1", 2), ("q1", "d9", 1), ("q7", "d1", 1), ("q7", "d9", 1), ("q1", "d1", 2)],
            "test": [("q3", "d3", 1), ("q3", "d2", -1), ("q1", "d1", 1), ("q1", "d2", 0)],
        },
    )
    progress = Notes()
    counts = write_collection(made, tmp_path, progress)
    assert counts["documents"] == 3
    train = {"queries": 2, "judgements": 1, "unknown_documents": 1, "unknown_queries": 2, "repeated": 1}
    assert counts["splits"] == {
        "train": {**train, "without_relevant": 1, "highest_grade": 2},
        "test": {"queries": 2, "judgements": 4, "without_relevant": 0, "highest_grade": 1},
        "dev": {"queries": 0, "judgements": 0, "without_relevant": 0},
    }
    assert progress.lines == counts["notes"]
    assert counts["notes"] == [
        "3 rows had no text",
        "train: 2 judgements of unknown queries, used in evaluation only",
        "train: 1 judgement of documents not in the corpus, used in evaluation only",
        "train: 1 judgement repeated, left out",
        "train: 1 query without a relevant document",
    ]
    stored = StoredCollection.open(tmp_path)
    assert stored.splits == ("train", "test", "dev")
    assert stored.queries("train").query_ids == ["q2", "q1"]
    assert stored.queries("train").texts == ["b", "a"]
    assert stored.qrels("train") == {"q1": {"d1": 2}}
    assert stored.judged("train") == {"q1": {"d1": 2, "d9": 1}, "q7": {"d1": 1, "d9": 1}}
    assert stored.judged("test") == stored.qrels("test")
    assert stored.qrels("dev") == {}
    assert stored.all_qrels() == {"q1": {"d1": 2, "d2": 0}, "q3": {"d3": 1, "d2": -1}}
    assert stored.corpus.contents(stored.corpus.rows(["d2"])) == ["two"]
    assert json.loads((tmp_path / "collection.json").read_text())["splits"] == counts["splits"]
    assert not list(tmp_path.rglob("*.partial"))
    assert not list(tmp_path.rglob("*.spool"))


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (Made(asked={"train": [("q1", "a"), ("q1", "a")]}), "query id 'q1' occurs twice"),
        (Made(docs=[("d1", "a"), ("d1", "b")]), "document id 'd1' occurs twice"),
        (Made(judged={"train": [("q1", "d1", 1), ("q1", "d1", 0)]}), "document d1: judged both 1 and 0"),
        (Made(asked={"../train": []}), "split '../train'"),
        (Made(asked={"train": [("q1", "a")], "dev": [("q1", "b")]}), "'q1' of split dev: two splits give it"),
    ],
)
def test_refused(tmp_path, made, message):
    with pytest.raises(DataError) as raised:
        write_collection(made, tmp_path, Silent())
    assert message in str(raised.value)
    with pytest.raises(ArtifactError):
        StoredCollection.open(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 9, "splits": {}}', '{"format": 1, "splits": 3}'])
def test_not_a_collection(tmp_path, text):
    write_collection(Made(), tmp_path, Silent())
    (tmp_path / "collection.json").write_text(text)
    with pytest.raises(ArtifactError, match="collection"):
        StoredCollection.open(tmp_path)


def test_missing_parts(tmp_path):
    write_collection(Made(), tmp_path, Silent())
    stored = StoredCollection.open(tmp_path)
    (tmp_path / "qrels" / "train.txt").unlink()
    (tmp_path / "queries" / "train.arrow").unlink()
    for read in (stored.qrels, stored.queries, lambda _: stored.all_qrels()):
        with pytest.raises(ArtifactError, match="again"):
            read("train")


def test_order_of_splits():
    assert order_splits(["test", "zeta", "dev", "alpha", "train"]) == ["train", "dev", "test", "alpha", "zeta"]
