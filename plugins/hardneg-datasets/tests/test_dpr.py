"""Tests of questions, answers and passages in DPR's files."""

import gzip
import json
from pathlib import Path

import pytest
from hardneg_datasets.check import check
from hardneg_datasets.dpr import Dpr, Question, read_questions

from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.records import Answers, DataError, Document, Judgement, Query
from hardneg.runtime import Silent

PASSAGES = 'id\ttext\ttitle\n1\t"He said ""no"" twice"\tSpeech\n2\tplain text\t"A ""B"""\n'
PLAIN = {"question": "what is plain", "answers": [], "positive_ctxs": [{"psg_id": 2}, {"psg_id": 2}]}
SAID = {"question": "who said no", "answers": ["him"], "negative_ctxs": [{"title": "", "text": ""}] * 3}
SAID["positive_ctxs"] = [{"title": "Speech", "text": "He said", "passage_id": "1"}, {"title": "T", "text": "none"}]
TRAIN = [SAID | {"hard_negative_ctxs": [{"title": "", "text": "", "passage_id": "2"}]}, PLAIN]
TEST = 'who got it\t[\'Conrad Röntgen\', "O\'Neil"]\nquoted ""word\t"[\'say ""x""\']"\n'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "psgs_w100.tsv.gz").write_bytes(gzip.compress(PASSAGES.encode()))
    (tmp_path / "biencoder-nq-train.json").write_text(json.dumps(TRAIN, indent=4))
    (tmp_path / "nq-train.qa.csv").write_text(TEST)
    (tmp_path / "nq-test.qa.csv").write_text(TEST)
    return tmp_path


def test_dpr_files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    loader = Dpr(str(folder))
    collection = loader.load()
    assert list(collection.documents()) == [
        Document("1", 'He said "no" twice', "Speech"),
        Document("2", "plain text", 'A "B"'),
    ]
    assert collection.splits() == ["train", "test"]
    assert list(collection.queries("train")) == [Query("train-0", "who said no"), Query("train-1", "what is plain")]
    assert list(collection.qrels("train")) == [Judgement("train-0", "1", 1), Judgement("train-1", "2", 1)]
    assert list(collection.answers("test")) == [
        Answers("test-0", ("Conrad Röntgen", "O'Neil")),
        Answers("test-1", ('say "x"',)),
    ]
    assert list(collection.qrels("test")) == []
    stored = tmp_path_factory.mktemp("stored")
    facts = write_collection(collection, stored, Silent())
    known = {"queries": 2, "judgements": 2, "without_relevant": 0, "highest_grade": 1, "with_answers": 1}
    assert facts["splits"]["train"] == known
    assert facts["notes"] == [
        "nq-train.qa.csv: left out; biencoder-nq-train.json is read for train",
        "biencoder-nq-train.json: 1 positive passages without an id left out",
        "biencoder-nq-train.json: 3 negatives left out: a collection has only positives",
        "biencoder-nq-train.json: 1 hard negatives left out: a collection has only positives",
        "test: 2 queries without a relevant document",
    ]
    assert StoredCollection.open(stored).answers("train") == {"train-0": ("him",)}
    assert loader.size_hint() == 3


def test_a_stray_backslash_is_no_warning(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    path = tmp_path / "nq-test.qa.csv"
    path.write_text("how high\t['20\\s?320']\n")
    assert list(read_questions(path)) == [(1, Question("how high", ("20\\s?320",)))]
    assert not recwarn.list


def test_several_sets(folder: Path) -> None:
    (folder / "biencoder-trivia-dev.json").write_text(json.dumps(TRAIN))
    with pytest.raises(DataError, match="choose a set with `questions`; available: nq, trivia"):
        Dpr(str(folder)).load()
    assert Dpr(str(folder), questions="trivia").load().splits() == ["dev"]
    by_hand = Dpr(str(folder), splits={"dev": "nq-test.qa.csv"}).load()
    assert [query.query_id for query in by_hand.queries("dev")] == ["dev-0", "dev-1"]
    with pytest.raises(DataError, match="no wiki"):
        Dpr(str(folder), corpus="wiki.tsv").load()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("psgs_w100.tsv", "id\ttext\ttitle\n1\ttext\n", "psgs_w100.tsv:2: expected 3 columns"),
        ("psgs_w100.tsv", "1 2\ttext\ttitle\n", "psgs_w100.tsv:1: id '1 2'"),
        ("nq-test.qa.csv", "who\n", "nq-test.qa.csv:1: expected 2 columns"),
        ("nq-test.qa.csv", "who\t__import__('os')\n", "nq-test.qa.csv:1: answers must be a list of strings"),
        ("nq-test.qa.csv", "who\t" + "[" * 500 + "\n", "nq-test.qa.csv:1: answers must be a list of strings"),
        ("nq-test.qa.csv", "who\t[1]\n", "nq-test.qa.csv:1: answers must be a list of strings"),
        ("biencoder-nq-train.json", '[\n{"answers": []}]', "biencoder-nq-train.json:1: missing field 'question'"),
        ("biencoder-nq-train.json", '[{"question": "q", "positive_ctxs": [1]}]', "'positive_ctxs' must be a list"),
        ("biencoder-nq-train.json", '[{"question": "q", "answers": "a"}]', "'answers' must be a list"),
        ("biencoder-nq-train.json", '[{"question": "q"},', "biencoder-nq-train.json: not JSON"),
    ],
)
def test_mistakes(folder: Path, tmp_path_factory: pytest.TempPathFactory, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    collection = Dpr(str(folder)).load()
    with pytest.raises(DataError) as raised:
        write_collection(collection, tmp_path_factory.mktemp("stored"), Silent())
    assert message in str(raised.value)
    places = {f"{problem.file}:{problem.line}" for problem in check(collection.parts()) if not problem.warning}
    assert places


def test_the_field_s_own_questions(test_data: Path) -> None:
    counts = {"nq.dev": 8757, "nq.test": 3610, "trivia.test": 11313, "squad.test": 10570, "curated.test": 694}
    for name, count in counts.items():
        path = test_data / "trec-dl" / "topics" / f"topics.dpr.{name}.txt"
        found = [question for _, question in read_questions(path)]
        assert len(found) == count and all(isinstance(item, Question) and item.answers for item in found), name
