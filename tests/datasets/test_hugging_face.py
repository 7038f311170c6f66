"""Hugging Face tables, on local folders of the hub's layouts."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hardneg.datasets.hugging_face import Columns, HubTable, HuggingFace, table_digest
from hardneg.formats.collection import write_collection
from hardneg.records import DataError, Document, Judgement, Query
from hardneg.runtime import Silent

pytestmark = pytest.mark.usefixtures("datasets_cache")

CORPUS = {"_id": ["1", "2", "3"], "title": ["A", None, ""], "text": ["one", "two", "three"]}
QUERIES = {"_id": ["11", "10", "12"], "text": ["b", "a", "c"]}
TRAIN = {"query-id": [10, 11], "corpus-id": [1, 2], "score": [1, 1]}
DEV = {"query-id": [11], "corpus-id": [3], "score": [2]}
CARD = """---
configs:
- config_name: default
  data_files:
  - {split: train, path: qrels/train.parquet}
  - {split: dev, path: qrels/validation.parquet}
- config_name: corpus
  data_files:
  - {split: corpus, path: corpus.parquet}
- config_name: queries
  data_files:
  - {split: queries, path: queries.parquet}
---
"""


def table(path: Path, columns: dict[str, list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """Subfolders of Parquet shards, no card."""
    table(tmp_path / "corpus" / "corpus-00000-of-00002.parquet", {k: v[:2] for k, v in CORPUS.items()})
    table(tmp_path / "corpus" / "corpus-00001-of-00002.parquet", {k: v[2:] for k, v in CORPUS.items()})
    table(tmp_path / "queries" / "queries-00000-of-00001.parquet", QUERIES)
    table(tmp_path / "qrels" / "train.parquet", TRAIN)
    table(tmp_path / "qrels" / "validation.parquet", DEV)
    return tmp_path


@pytest.fixture
def carded(tmp_path: Path) -> Path:
    """A folder with a card that names configurations, as a clone from the hub has."""
    table(tmp_path / "corpus.parquet", CORPUS)
    table(tmp_path / "queries.parquet", QUERIES)
    table(tmp_path / "qrels" / "train.parquet", TRAIN)
    table(tmp_path / "qrels" / "validation.parquet", DEV)
    (tmp_path / "README.md").write_text(CARD)
    return tmp_path


def check(loader: HuggingFace) -> None:
    collection = loader.load()
    assert list(collection.documents()) == [Document("1", "one", "A"), Document("2", "two"), Document("3", "three")]
    assert collection.splits() == ["train", "dev"]
    assert list(collection.queries("train")) == [Query("11", "b"), Query("10", "a")]
    assert list(collection.queries("dev")) == [Query("11", "b")]
    assert list(collection.qrels("train")) == [Judgement("10", "1", 1), Judgement("11", "2", 1)]
    assert list(collection.qrels("dev")) == [Judgement("11", "3", 2)]
    (note,) = collection.notes()
    assert note.endswith(": 1 query without judgements left out")


def test_plain_folder(plain, tmp_path_factory):
    loader = HuggingFace(str(plain))
    check(loader)
    counts = write_collection(loader.load(), tmp_path_factory.mktemp("stored"), Silent())
    assert counts["documents"] == 3
    assert counts["splits"]["train"] == {"queries": 2, "judgements": 2, "without_relevant": 0, "highest_grade": 1}


def test_a_look_up_counts_the_documents(plain):
    assert HuggingFace(str(plain)).look_up().note in ("", "about 3 documents")


def test_folder_with_a_card(carded):
    check(HuggingFace(str(carded)))
    check(HuggingFace(str(carded), qrels=HubTable(config="default")))


def test_json_lines(tmp_path):
    parts = {"corpus": CORPUS, "queries": QUERIES, "qrels/train": TRAIN, "qrels/validation": DEV}
    (tmp_path / "qrels").mkdir()
    for name, columns in parts.items():
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    check(HuggingFace(str(tmp_path)))


def test_other_columns_and_floats(tmp_path):
    table(tmp_path / "docs.parquet", {"pid": [1, 2], "passage": ["one", "two"]})
    table(tmp_path / "topics.parquet", {"qid": [7], "query": ["a"]})
    table(tmp_path / "judged.parquet", {"qid": ["7"], "pid": ["2"], "label": [3.0]})
    columns = Columns("pid", "", "passage", "qid", "query", "qid", "pid", "label")
    tables = (HubTable(config="docs"), HubTable(config="topics"), HubTable(config="judged"))
    collection = HuggingFace(str(tmp_path), None, *tables, columns).load()
    assert list(collection.documents()) == [Document("1", "one"), Document("2", "two")]
    assert collection.splits() == ["all"]
    assert list(collection.queries("all")) == [Query("7", "a")]
    assert list(collection.qrels("all")) == [Judgement("7", "2", 3)]


def test_one_split(plain):
    loader = HuggingFace(str(plain), qrels=HubTable(config="qrels", split="validation"))
    assert loader.load().splits() == ["dev"]
    with pytest.raises(DataError, match=r"no split 'test'; available: (dev, train|train, dev)"):
        replace(loader, qrels=HubTable(config="qrels", split="test")).load()


@pytest.mark.parametrize(
    ("path", "columns", "message"),
    [
        ("qrels/train.parquet", TRAIN | {"score": [1.5, 1]}, "[qrels]:1: column 'score' must contain whole"),
        ("qrels/train.parquet", TRAIN | {"score": [1, None]}, "[qrels]:2: column 'score' must contain whole"),
        ("qrels/train.parquet", {"query": [1]}, "[qrels]:1: missing column 'query-id' (available: query)"),
        ("queries/q.parquet", {"_id": ["1 0"], "text": ["a"]}, "[queries]:1: column '_id' must contain ids"),
        ("queries/q.parquet", {"_id": ["1", "1"], "text": ["a", "b"]}, "train:2: query id '1' is repeated"),
        ("corpus/c.parquet", {"_id": ["1"], "text": [None]}, "[corpus]:1: column 'text' must contain strings"),
    ],
)
def test_mistakes(plain, tmp_path_factory, path, columns, message):
    for old in (plain / path).parent.glob("*"):
        old.unlink()
    table(plain / path, columns)
    with pytest.raises(DataError) as raised:
        write_collection(HuggingFace(str(plain)).load(), tmp_path_factory.mktemp("stored"), Silent())
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_damaged_parquet(plain):
    path = plain / "qrels" / "train.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="cannot be"):
        list(HuggingFace(str(plain)).load().qrels("train"))


def test_tables_that_are_not_there(plain):
    with pytest.raises(DataError, match=r"no configuration, subfolder, \.parquet or \.jsonl file 'nope'"):
        HuggingFace(str(plain), corpus=HubTable(config="nope")).load()
    with pytest.raises(DataError, match=r"train, dev\); choose one with `corpus\.split`"):
        HuggingFace(str(plain), corpus=HubTable(config="qrels")).load()


def test_offline_hub_is_said_in_one_line():
    for call in (HuggingFace("BeIR/scifact").load, HuggingFace("BeIR/scifact").fingerprint):
        with pytest.raises(DataError, match=r"BeIR/scifact\[corpus\] cannot be opened") as raised:
            call()
        assert "give a local folder" in str(raised.value)
        assert "\n" not in str(raised.value)
    assert HuggingFace("BeIR/scifact").size_hint() == 0


def test_where_the_tables_of_hub_ids_are():
    corpus, queries, qrels = HuggingFace("BeIR/msmarco", revision="a" * 40).tables()
    assert corpus == HubTable("BeIR/msmarco", "corpus", None, "a" * 40)
    assert queries == HubTable("BeIR/msmarco", "queries", None, "a" * 40)
    assert qrels == HubTable("BeIR/msmarco-qrels")
    assert HuggingFace("mteb/msmarco").tables()[2] == HubTable("mteb/msmarco", "default")
    own = HuggingFace("mteb/msmarco", qrels=HubTable(repo="me/judged", revision="v1"))
    assert own.tables()[2] == HubTable("me/judged", None, None, "v1")


def test_a_whole_commit_is_not_looked_up():
    commit = "0123456789abcdef" * 2 + "01234567"
    assert table_digest(HubTable("mteb/scifact", revision=commit)) == commit


def test_fingerprint(plain):
    pinned = HuggingFace("mteb/scifact", revision="a" * 40)
    assert pinned.fingerprint() == pinned.fingerprint() != replace(pinned, revision="b" * 40).fingerprint()
    local = HuggingFace(str(plain))
    before = local.fingerprint()
    (plain / ".git").mkdir()
    (plain / ".git" / "HEAD").write_text("x")
    assert local.fingerprint() == before
    assert replace(local, columns=Columns(title="")).fingerprint() != before
    table(plain / "qrels" / "train.parquet", DEV)
    assert local.fingerprint() != before
