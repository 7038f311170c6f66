"""Tests of topic files in three formats."""

import gzip
import json
from pathlib import Path

import pytest
from hardneg_datasets.check import check
from hardneg_datasets.pyserini import Pyserini
from hardneg_datasets.topics import topics_part

from hardneg.plugin import errors, source_files
from hardneg.records import DataError, Document, Judgement, Query

TREC = """
<top>

<num> Number: 301
<title> International Organized
 Crime

<desc> Description:
Identify organizations
that participate.

<narr> Narrative:
A relevant document <b>must</b> name one.
</top>

<top><num>302</num><title>Topic: poliomyelitis</title><desc>Is it controlled?</desc></top>
"""


def read(path: Path, text: str, field: str = "title") -> list[tuple[int, Query]]:
    path.write_text(text)
    return list(source_files.records(topics_part(path, field=field)))  # type: ignore[arg-type]


def test_trec_blocks(tmp_path: Path) -> None:
    path = tmp_path / "topics.txt"
    crime = (2, Query("301", "International Organized Crime"))
    assert read(path, TREC) == [crime, (16, Query("302", "poliomyelitis"))]
    told = ["Identify organizations that participate.", "Is it controlled?"]
    assert [query.text for _, query in read(path, TREC, "desc")] == told


OLD = """
<top>
<head> An old topic
<num> Number:  051
<dom> Domain:  Building
<title> Topic:  Bridges
<desc> Description:
Which bridges
are there?
<smry> Summary:
Kinds of bridges.
<narr> Narrative:
Any kind counts.
<con> Concept(s):
1. arch, beam
</top>
"""


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("title", "Bridges"),
        ("desc", "Which bridges are there?"),
        ("narr", "Any kind counts."),
        ("smry", "Kinds of bridges."),
        ("con", "1. arch, beam"),
    ],
)
def test_any_tag_at_the_start_of_a_line_ends_a_field(tmp_path: Path, field: str, text: str) -> None:
    assert read(tmp_path / "topics", OLD, field) == [(2, Query("051", text))]


def test_elements_of_xml(tmp_path: Path) -> None:
    web = """<?xml version="1.0"?>
<topics task="web">
 <topic number="201" type="faceted">
  <query>arch &amp; beam</query>
  <description>Which
   bridges?</description>
  <subtopic number="1">Old ones.</subtopic>
 </topic><topic number="202"><query>coffee</query><description>Where?</description></topic>
</topics>"""
    numbers = "<topics><topic><number>7</number><title>tea</title></topic></topics>"
    micro = "<top>\n<num> Number: MB1 </num>\n<query> a gathering </query>\n<querytime> now </querytime>\n</top>\n"
    path = tmp_path / "topics.xml"
    assert read(path, web) == [(3, Query("201", "arch & beam")), (8, Query("202", "coffee"))]
    assert [query.text for _, query in read(path, web, "desc")] == ["Which bridges?", "Where?"]
    assert read(path, numbers) == [(1, Query("7", "tea"))]
    assert read(path, micro) == read(path, micro, "query") == [(1, Query("MB1", "a gathering"))]


def test_a_file_of_other_elements_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        errors.DataError, match=r"topics:1: no query in this file; expected `<top>` blocks or `<topic>` elements"
    ):
        read(tmp_path / "topics", "<DOC>\n<DOCNO>1</DOCNO>\nbridges\n</DOC>\n")


def test_tabs_and_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "topics.gz"
    path.write_bytes(gzip.compress(b"7\twho was\n\n8\t how\n"))
    assert list(source_files.records(topics_part(path))) == [(1, Query("7", "who was")), (3, Query("8", " how"))]
    text = '{"qid": 7, "title": "who was"}\n{"id": "8", "query": "how"}\n{"_id": "9", "text": "why"}\n'
    expected = [(1, Query("7", "who was")), (2, Query("8", "how")), (3, Query("9", "why"))]
    assert read(path, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("7\ta\tb\n", "topics:1: expected 2 columns"),
        ("7 8\ta\n", "topics:1: id '7 8'"),
        ('{"title": "a"}\n', "topics:1: missing field 'qid'"),
        ('{"qid": "1"}\n', "topics:1: missing field 'title'"),
        ('[{"qid": "1", "title": "a"}]\n', "topics:1: expected a JSON object"),
        ("<top>\n<num> 1\n<title> a\n<top>\n<num> 2\n<title> b\n</top>", "topics:1: this <top> has no </top>"),
        ("<top>\n<num> 1\n<title> a\n", "topics:1: this <top> has no </top>"),
        ("<top>\n<title> a\n</top>", "topics:1: this <top> has no <num>"),
        ("<top>\n<num> 1 2\n<title> a\n</top>", "topics:1: id '1 2'"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(errors.DataError) as raised:
        read(tmp_path / "topics", text)
    assert message in str(raised.value)


def test_the_field_s_own_topics(test_data: Path) -> None:
    counts = {"dl19-passage": 43, "dl20": 200, "dl21": 477, "dl22": 500, "msmarco-passage.dev-subset": 6980}
    for name, count in counts.items():
        path = test_data / "trec-dl" / "topics" / f"topics.{name}.txt"
        assert sum(1 for _ in source_files.records(topics_part(path))) == count, name


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
    with pytest.raises(DataError, match="no file ending in"):
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
        ("invalid ids", "one.jsonl", 2),
        ("lines that cannot be read", "x.json", 1),
        ("lines that are not JSON objects", "x.json", 3),
    ]
