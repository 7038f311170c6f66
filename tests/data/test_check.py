"""Every mistake of a collection, each with its place."""

import gzip
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken import FAULTS, write_broken

from hardneg.data.check import check
from hardneg.data.parts import parts_of
from hardneg.data.problems import Problem
from hardneg.datasets.beir import Beir
from hardneg.errors import DataError
from hardneg.types import Document, Judgement, Query


def problems(folder: Path) -> list[Problem]:
    return list(check(parts_of(Beir(str(folder)).load())))


def write(folder: Path, corpus: str, queries: str, **qrels: str) -> Path:
    (folder / "corpus.jsonl").write_text(corpus)
    (folder / "queries.jsonl").write_text(queries)
    (folder / "qrels").mkdir()
    for split, text in qrels.items():
        (folder / "qrels" / f"{split}.tsv").write_text(text)
    return folder


GOOD = '{"_id": "d1", "text": "river"}\n{"_id": "d2", "title": "t", "text": "bridge"}\n'
ASKED = '{"_id": "q1", "text": "water"}\n'


def test_a_good_collection_has_none(tmp_path: Path) -> None:
    assert problems(write(tmp_path, GOOD, ASKED, test="q1 0 d1 1\n")) == []


def test_nine_faults_at_once(tmp_path: Path) -> None:
    write_broken(tmp_path)
    found = problems(tmp_path)
    told = {(item.kind, Path(item.file).name, item.line) for item in found}
    assert told >= FAULTS
    assert {kind for kind, _, _ in told} == {kind for kind, _, _ in FAULTS}
    assert [item.kind for item in found if item.warning] == ["document texts under two ids"]


def test_judgements(tmp_path: Path) -> None:
    write(tmp_path, GOOD, ASKED, test="q1 0 d1 1\nq1 0 d1 1\nq1 0 d1 2\nq9 0 d2 1\nq1 0 d2 x\n")
    assert [(item.kind, item.line, item.warning) for item in problems(tmp_path)] == [
        ("relevance that is no whole number", 5, False),
        ("judgements of unknown queries", 4, False),
        ("judgements that stand twice", 2, True),
        ("judgements that contradict each other", 3, False),
    ]


def test_texts(tmp_path: Path) -> None:
    rows = ['"_id": "d1", "text": " "', '"_id": "d2", "title": "t", "text": ""', '"_id": "d3", "text": "u"']
    write(tmp_path, "".join(f"{{{row}}}\n" for row in rows), ASKED, test="q1 0 d1 1\n")
    assert [(item.kind, item.line, item.warning) for item in problems(tmp_path)] == [
        ("empty texts", 1, False),
        ("titles without text", 2, True),
    ]


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    write(tmp_path, "no\n", ASKED, test="query-id\tcorpus-id\tscore\n")
    assert Counter(item.kind for item in problems(tmp_path)) == {
        "lines that are not JSON objects": 1,
        "nothing to search": 1,
        "nothing to judge by": 1,
    }


class Streamed:
    """A collection of a plugin that knows nothing of parts."""

    def documents(self) -> Iterator[Document]:
        yield from [Document("a b", "one"), Document("c", "two"), Document("c", "three")]
        raise DataError("shelf:7: not UTF-8 (torn)")

    def splits(self) -> list[str]:
        return ["dev", "dev.small", "test"]

    def queries(self, split: str) -> Iterator[Query]:
        yield Query("q", "where")

    def qrels(self, split: str) -> Iterator[Judgement]:
        yield Judgement("q", "c", 1)

    def notes(self) -> list[str]:
        return []


def test_streams_are_checked_to_their_first_error() -> None:
    found = list(check(parts_of(Streamed())))
    assert [str(item) for item in found] == [
        "documents:4: shelf:7: not UTF-8 (torn)",
        "documents:1: id 'a b' is empty or holds white space or control characters",
        "documents:3: the document id of documents:2 stands here again",
        "judgements of test:1: query 'q' is judged here, in test, and in dev at judgements of dev:1",
        "judgements of test:1: query 'q' is judged here, in test, and in dev.small at judgements of dev.small:1",
    ]


@pytest.mark.parametrize("cut", [5, 40])
def test_damaged_gzip(tmp_path: Path, cut: int) -> None:
    write(tmp_path, GOOD, ASKED, test="q1 0 d1 1\n")
    (tmp_path / "corpus.jsonl").unlink()
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(GOOD.encode() * 40)[:-cut])
    assert "files that are cut off or damaged" in {item.kind for item in problems(tmp_path)}
