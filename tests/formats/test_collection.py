"""The stored collection: what is written, what is left out, what is refused."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from noted import Notes
from refused_collections import CORPUS, beir, refused

from hardneg.datasets.beir import Beir
from hardneg.datasets.held_out import Withheld, WithheldCollection
from hardneg.formats.collection import Queries, StoredCollection, write_collection, write_queries
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
        "train: 1 repeated judgement left out",
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
        (Made(asked={"train": [("q1", "a")], "dev": [("q1", "b")]}), "'q1' of split dev has another text"),
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
        with pytest.raises(ArtifactError, match="rerun"):
            read("train")


def test_order_of_splits():
    assert order_splits(["test", "zeta", "dev", "alpha", "train"]) == ["train", "dev", "test", "alpha", "zeta"]


def test_what_is_withheld_has_places_too(tmp_path: Path) -> None:
    collection = WithheldCollection(beir(tmp_path, [*CORPUS, "d2"]), Withheld(unlabelled=0.5))
    assert refused(collection, tmp_path).startswith(f"{tmp_path}/corpus.jsonl:4: ")


def test_a_document_that_is_relevant_and_excluded(tmp_path: Path) -> None:
    (tmp_path / "excluded.tsv").write_text("q1\td2\nq1\td1\n")
    reason = "excluded.tsv:2: document 'd1' of query 'q1' is both relevant and excluded"
    assert reason in refused(beir(tmp_path), tmp_path)


def test_order_is_kept_over_many_batches(tmp_path):
    queries = [Query(f"q{(i * 7919) % 20000}", f"text {i} é") for i in range(20000)]
    assert write_queries(tmp_path / "train.arrow", iter(queries)) == [query.query_id for query in queries]
    stored = Queries.open(tmp_path / "train.arrow")
    assert list(stored) == queries
    assert len(stored) == 20000
    assert stored.texts[3] == "text 3 é"


@pytest.mark.parametrize(
    ("queries", "message"),
    [
        ([Query("q1", "a"), Query("q1", "a")], "'q1' occurs twice"),
        ([Query("q 1", "a")], "white space"),
        ([Query("", "a")], "white space"),
        ([Query("q1", None)], "must be strings"),
        ([Query("q1", "half \ud800")], "not valid Unicode"),
    ],
)
def test_bad_queries(tmp_path, queries, message):
    with pytest.raises(DataError, match=message):
        write_queries(tmp_path / "train.arrow", queries)
    assert not (tmp_path / "train.arrow").exists()


@pytest.mark.parametrize("keep", [0, 10, -1])
def test_damaged_files(tmp_path, keep):
    path = tmp_path / "train.arrow"
    write_queries(path, [Query("q1", "text")])
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ArtifactError, match="queries cannot be read") as raised:
        Queries.open(path)
    assert "\n" not in str(raised.value)
    path.unlink()
    with pytest.raises(ArtifactError):
        Queries.open(path)


def test_a_beir_folder_keeps_them_by_split(tmp_path):
    source = tmp_path / "source"
    (source / "qrels").mkdir(parents=True)
    (source / "corpus.jsonl").write_text('{"_id": "d", "text": "river"}\n')
    plain = '{"_id": "q1", "text": "water"}\n{"_id": "q2", "text": "stone"}\n'
    (source / "queries.jsonl").write_text(plain)
    for split, query_id in (("train", "q1"), ("test", "q2")):
        (source / "qrels" / f"{split}.tsv").write_text(f"{query_id} 0 d 1\n")
    loader, before = Beir(str(source)), Beir(str(source)).fingerprint()
    counts = write_collection(loader.load(), tmp_path / "plain", Silent())
    assert not (tmp_path / "plain" / "answers").exists() and "with_answers" not in counts["splits"]["test"]
    (source / "queries.jsonl").write_text(plain.replace('"water"', '"water", "answers": ["Röntgen", "b"]'))
    assert loader.fingerprint() != before
    counts = write_collection(loader.load(), tmp_path / "stored", Silent())
    assert counts["splits"]["train"]["with_answers"] == 1 and "with_answers" not in counts["splits"]["test"]
    stored = StoredCollection.open(tmp_path / "stored")
    assert stored.answers("train") == {"q1": ("Röntgen", "b")} and stored.answers("test") == {}
