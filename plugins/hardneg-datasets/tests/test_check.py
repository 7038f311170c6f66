"""Tests that every kind of mistake in a collection is reported with its location."""

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from broken import FAULTS, write_broken
from command_line import call, hardneg
from hardneg_datasets.check import check
from hardneg_datasets.msmarco import MsMarcoPassage
from hardneg_datasets.problems import Contents, Problem, SplitContents
from recipes.recipes import small_collection
from refused_collections import beir, refused

from hardneg.datasets.beir import Beir
from hardneg.formats.source_files import parts_of
from hardneg.records import DataError, Document, Judgement, Query


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


def test_nine_faults_at_once(tmp_path: Path) -> None:
    write_broken(tmp_path)
    found = problems(tmp_path)
    told = {(item.category, Path(item.file).name, item.line) for item in found}
    assert told >= FAULTS
    assert {kind for kind, _, _ in told} == {kind for kind, _, _ in FAULTS}
    assert [item.category for item in found if item.warning] == ["document texts under two ids"]


def test_judgements(tmp_path: Path) -> None:
    write(tmp_path, GOOD, ASKED, test="q1 0 d1 1\nq1 0 d1 1\nq1 0 d1 2\nq9 0 d2 1\nq1 0 d2 x\n")
    assert [(item.category, item.line, item.warning) for item in problems(tmp_path)] == [
        ("relevance that is not a whole number", 5, False),
        ("judgements of unknown queries", 4, False),
        ("repeated judgements", 2, True),
        ("contradictory judgements", 3, False),
    ]


def test_queries_that_are_documents(tmp_path: Path) -> None:
    rows = [
        {"_id": "d1", "text": "keep  cats"},
        {"_id": "d2", "title": "t", "text": "dogs"},
        {"_id": "d3", "text": "u"},
    ]
    asked = [{"_id": "d1", "text": "keep cats"}, {"_id": "d2", "text": "dogs"}, {"_id": "d3", "text": "other"}]
    corpus, queries = ("".join(f"{json.dumps(row)}\n" for row in each) for each in (rows, asked))
    write(tmp_path, corpus, queries, test="d1 0 d2 1\nd2 0 d1 1\nd3 0 d1 1\n")
    found = [(item.category, item.line, item.warning) for item in problems(tmp_path)]
    assert found == [("queries that are documents", 1, True), ("queries that are documents", 2, True)]


def test_nothing_that_can_be_read(tmp_path: Path) -> None:
    write(tmp_path, "no\n", ASKED, test="query-id\tcorpus-id\tscore\n")
    found = Counter(item.category for item in problems(tmp_path))
    assert found == {"lines that are not JSON objects": 1, "nothing to search": 1, "nothing to judge by": 1}


class Streamed:
    """A plugin's collection that is not divided into parts."""

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
        "documents:1: id 'a b' is empty or contains white space or control characters",
        "documents:3: repeats the document id of documents:2",
        "judgements of test:1: query 'q' is judged both here in test and in dev at judgements of dev:1",
        "judgements of test:1: query 'q' is judged both here in test and in dev.small at judgements of dev.small:1",
    ]


@pytest.mark.parametrize("cut", [5, 40])
def test_damaged_gzip(tmp_path: Path, cut: int) -> None:
    write(tmp_path, GOOD, ASKED, test="q1 0 d1 1\n")
    (tmp_path / "corpus.jsonl").unlink()
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(GOOD.encode() * 40)[:-cut])
    assert "truncated or damaged files" in {item.category for item in problems(tmp_path)}


def told(folder: Path) -> list[tuple[str, str, bool]]:
    return [(item.category, str(item).replace(f"{folder}/", ""), item.warning) for item in problems(folder)]


def rows(**texts: str) -> str:
    return "".join(json.dumps({"_id": name, "text": text}) + "\n" for name, text in texts.items())


def test_a_query_of_two_splits_is_told_with_both_judgements(tmp_path: Path) -> None:
    qrels = {"train": "q2 0 d1 1\nq1 0 d1 0\nq1 0 d2 1\n", "test": "q1 0 d1 1\nq1 0 d2 1\n"}
    write(tmp_path, GOOD, rows(q1="a", q2="b"), **qrels)
    reason = "query 'q1' is judged both here in test and in train at qrels/train.tsv:2"
    assert told(tmp_path) == [("queries in two splits", f"qrels/test.tsv:1: {reason}", False)]


def test_leakage_by_text(tmp_path: Path) -> None:
    texts = {"q1": "What  is it?", "q2": "ﬁne", "q3": "other", "q4": "what is\tit?", "q5": "FINE", "q6": "What is it?"}
    qrels = {"train": "q1 0 d1 1\nq2 0 d1 1\n", "dev": "q3 0 d1 1\nq5 0 d1 1\n", "test": "q6 0 d2 1\nq4 0 d1 1\n"}
    write(tmp_path, GOOD, rows(**texts), **qrels)
    kind, texts_at = "leakage between splits", "texts at queries.jsonl:{} and queries.jsonl:{}"
    alike = "qrels/test.tsv:2: query 'q4' of test has the text (ignoring case and form) of query 'q1' of train at"
    others = "qrels/dev.tsv:2: query 'q5' of dev has the text (ignoring case and form) of query 'q2' of train at"
    same = "qrels/test.tsv:1: query 'q6' of test has the text of query 'q1' of train at"
    assert told(tmp_path) == [
        (kind, f"{others} qrels/train.tsv:2; {texts_at.format(5, 2)}", True),
        (kind, f"{same} qrels/train.tsv:1; {texts_at.format(6, 1)}", True),
        (kind, f"{alike} qrels/train.tsv:1; {texts_at.format(4, 1)}", True),
    ]


def test_kinds_of_unreadable_lines(tmp_path: Path) -> None:
    corpus = GOOD + "\n[1,\n{\n"
    write(tmp_path, corpus, ASKED, test="q1,d1,1\n", train="q1 0 d1 1\n", dev="query\tdocument\tgrade\n")
    found = {(item.category, item.line): item.reason for item in problems(tmp_path)}
    assert (
        found["lines that are not JSON objects", 4]
        == "expected one JSON object per line, found an array or an object over several lines"
    )
    assert "over several lines" in found["lines that are not JSON objects", 5]
    assert found["wrong numbers of columns", 1].startswith("expected 4 columns (TREC) or 3 (BEIR)")
    assert found["relevance that is not a whole number", 1].endswith("header must end in label, rel, relevance, score")


def test_splits_without_anything_relevant(tmp_path: Path) -> None:
    qrels = {"dev": "query-id\tcorpus-id\tscore\n", "test": "q1 0 d1 0\nq1 0 d2 -1\n"}
    write(tmp_path, GOOD, ASKED, train="q1 0 d1 1\n", **qrels)
    found = [item for item in told(tmp_path) if item[0] == "nothing to judge by"]
    assert found == [
        ("nothing to judge by", "qrels/dev.tsv: split dev: no readable record", True),
        ("nothing to judge by", "qrels/test.tsv: split test: none of the 2 grades is above zero", True),
    ]


def test_what_was_read(tmp_path: Path) -> None:
    write(tmp_path, GOOD, rows(q1="a", q2="b", q3="c"), train="q1 0 d1 2\nq1 0 d2 0\n", test="q2 0 d1 1\nq2 0 d2 -1\n")
    (tmp_path / "qrels" / "extra.tsv.txt").touch()
    (tmp_path / "queries.csv").touch()
    contents = Contents()
    assert list(check(parts_of(Beir(str(tmp_path)).load()), contents=contents)) == []
    assert (contents.documents, contents.unjudged) == (2, 1)
    assert contents.splits == {"train": SplitContents(1, 1, 1, 0), "test": SplitContents(1, 1, 0, 1)}
    read = ["corpus.jsonl", "queries.jsonl", "qrels/train.tsv", "qrels/test.tsv"]
    assert [str(path.relative_to(tmp_path)) for path in contents.files()] == read
    assert contents.not_read(tmp_path) == [tmp_path / "qrels" / "extra.tsv.txt", tmp_path / "queries.csv"]


def test_a_query_with_two_texts(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("d1\tone\n")
    for split, text in {"train": "a", "dev": "b"}.items():
        (tmp_path / f"queries.{split}.tsv").write_text(f"q0\tsame\nq1\t{text}\n")
        (tmp_path / f"qrels.{split}.tsv").write_text("q0 0 d1 1\nq1 0 d1 1\n")
    told = refused(MsMarcoPassage(str(tmp_path)).load(), tmp_path)
    place, _, reason = told.partition(": ")
    assert place == f"{tmp_path}/queries.dev.tsv:2"
    assert reason == "query id 'q1' of split dev has another text in an earlier split; make ids unique"


@pytest.mark.parametrize("name", ["my split", "-x", "été"])
def test_names_of_splits(tmp_path: Path, name: str) -> None:
    collection = beir(tmp_path, test=name)
    rule = f"split {name!r}: rename it to start with a letter or digit and use only letters, digits, '.', '_' and '-'"
    assert refused(collection, tmp_path) == rule
    found = [problem for problem in check(parts_of(collection)) if problem.category == "names of splits"]
    assert [str(problem) for problem in found] == [f"{tmp_path}/qrels/{name}.tsv: {rule}"]


def test_check_tells_all_faults_and_counts_what_it_does_not_print(tmp_path):
    write_broken(tmp_path)
    (tmp_path / "notes.txt").touch()
    (tmp_path / "qrels" / "dev.csv").touch()
    told = call("data", "check", f"beir:{tmp_path}")
    assert told.exit_code == 4
    assert all(f"{name}:{line}: " in told.stdout for _, name, line in FAULTS)
    assert told.stdout.splitlines()[-6:] == [
        "read: 5 documents",
        "  train: 1 query, 1 judgement (1 relevant, 0 zero)",
        "  test: 2 queries, 2 judgements (2 relevant, 0 zero)",
        "files read: corpus.jsonl.gz, queries.jsonl, qrels/train.tsv, qrels/test.tsv",
        "files not read: notes.txt, qrels/dev.csv",
        "8 errors, 1 warning",
    ]
    out = call("data", "check", f"beir:{tmp_path}", "--limit", "0").stdout
    assert "error: empty texts: 1\n  and 1 more; --limit 1 prints all\n" in out
    told = call("data", "check", f"beir:{tmp_path}", "--json")
    assert told.exit_code == 4 and json.loads(told.stdout)["errors"] == 8
    read = json.loads(told.stdout)["read"]
    assert read["splits"]["test"] == {"queries": 2, "relevant": 2, "zero": 0, "negative": 0}
    assert (read["documents"], read["files not read"]) == (5, ["notes.txt", "qrels/dev.csv"])


@pytest.mark.parametrize("arguments", [[], ["--json"]])
def test_a_good_dataset_ends_well(tmp_path, arguments):
    small_collection(tmp_path)
    out = hardneg("data", "check", f"beir:{tmp_path}", *arguments).stdout
    assert "0 errors" in out or json.loads(out)["errors"] == 0


def test_mistakes_in_documents_have_their_lines(tmp_path):
    (tmp_path / "bad.txt").write_bytes(b"fine\n\xff\xfe bad")
    (tmp_path / "rows.jsonl").write_text('{"title": "no text"}\n{"text": "fine"}\n')
    checked = call("data check", f"documents:{tmp_path}").stdout
    assert "bad.txt:2: not UTF-8" in checked and "rows.jsonl:1: missing field 'text'" in checked
