"""Pyserini's JSON documents, with topics and qrels."""

import gzip
import json
from pathlib import Path

import pytest
from hardneg_datasets.check import check
from hardneg_datasets.pyserini import Pyserini

from hardneg.records import DataError, Document, Judgement, Query


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "corpus" / "more").mkdir(parents=True)
    rows = [{"id": "a", "contents": "River\nold water"}, {"docid": 7, "title": None, "text": "a bridge", "url": "u"}]
    (tmp_path / "corpus" / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    packed = [{"_id": "c", "title": "Harbor", "text": "blue"}]
    (tmp_path / "corpus" / "more" / "two.json.gz").write_bytes(gzip.compress(json.dumps(packed, indent=1).encode()))
    (tmp_path / "corpus" / "notes.md").write_text("no documents")
    (tmp_path / "topics.dev.jsonl").write_text('{"qid": "1", "query": "water"}\n')
    (tmp_path / "qrels.dev.txt").write_text("1 0 a 1\n")
    (tmp_path / "topics.test.txt").write_text(
        "<top>\n<num> Number: 2\n<title> where\n<desc> Description: who\n</top>\n"
    )
    (tmp_path / "qrels.test.txt").write_text("2 0 c 2\n2 0 7 0\n")
    return tmp_path


def test_what_pyserini_reads(folder: Path) -> None:
    loader = Pyserini(str(folder))
    collection = loader.load()
    assert list(collection.documents()) == [
        Document("c", "blue", "Harbor"),
        Document("a", "River\nold water"),
        Document("7", "a bridge"),
    ]
    assert collection.splits() == ["dev", "test"]
    assert list(collection.queries("test")) == [Query("2", "where")]
    assert list(collection.qrels("test")) == [Judgement("2", "c", 2), Judgement("2", "7", 0)]
    assert collection.notes() == [] and list(check(collection.parts())) == []
    assert loader.size_hint() >= 2


def test_options(folder: Path) -> None:
    loader = Pyserini(str(folder), corpus="corpus/one.jsonl", title_line=True, topic_field="desc")
    assert list(loader.load().documents()) == [Document("a", "old water", "River"), Document("7", "a bridge")]
    assert list(loader.load().queries("test")) == [Query("2", "who")]
    assert loader.fingerprint() != Pyserini(str(folder), corpus="corpus/one.jsonl", title_line=True).fingerprint()
    with pytest.raises(DataError, match="no file that ends in"):
        Pyserini(str(folder), corpus="index").load()
    with pytest.raises(DataError, match="no such folder"):
        Pyserini(str(folder / "none")).load()


def test_a_check_goes_on_after_a_mistake(folder: Path) -> None:
    (folder / "corpus" / "one.jsonl").write_text(
        '{"id": "a"}\n{"id": "b c", "contents": ""}\n{"id": "7", "text": "t"}\n'
    )
    (folder / "corpus" / "x.json").write_text('[{"id": 1.5, "text": "t"},\n{"id": "a", "text": "s"}, 3]')
    told = [
        (problem.category, Path(problem.file).name, problem.line)
        for problem in check(Pyserini(str(folder)).load().parts())
    ]
    assert told == [
        ("lines that cannot be read", "one.jsonl", 1),
        ("ids that are not one word", "one.jsonl", 2),
        ("lines that cannot be read", "x.json", 1),
        ("lines that are not JSON objects", "x.json", 3),
    ]
