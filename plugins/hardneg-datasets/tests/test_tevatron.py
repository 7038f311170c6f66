"""Tests of Tevatron's tables in local folders with the layout of the hub."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hardneg_datasets.tevatron import Tevatron

from hardneg.datasets.hugging_face import HubTable
from hardneg.formats.collection import StoredCollection, write_collection
from hardneg.records import DataError, Document, Judgement, Query
from hardneg.runtime import Silent

pytestmark = pytest.mark.usefixtures("datasets_cache")

CORPUS = [{"docid": "d1", "title": "River", "text": "old water"}, {"docid": "d2", "title": "", "text": "a bridge"}]
BOTH = {"positive_passages": [{**CORPUS[0], "score": 1.0}], "negative_passages": [{**CORPUS[1], "score": 0.0}] * 3}
NONE = {"answers": [], "positive_passages": [], "negative_passages": []}
ROWS = [{"query_id": "1", "query": "water", "answers": ["a", "b"], **BOTH}, {"query_id": "2", "query": "stone", **NONE}]


def write(folder: Path, rows: list[dict[str, Any]]) -> Path:
    (folder / "nq").mkdir()
    (folder / "nq-corpus").mkdir()
    (folder / "nq" / "train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(CORPUS), folder / "nq-corpus" / "train-00000-of-00001.parquet")
    return folder / "nq"


def test_rows_and_corpus(tmp_path: Path) -> None:
    loader = Tevatron(str(write(tmp_path, ROWS)))
    collection = loader.load()
    assert list(collection.documents()) == [Document("d1", "old water", "River"), Document("d2", "a bridge")]
    assert collection.splits() == ["train"]
    assert list(collection.queries("train")) == [Query("1", "water"), Query("2", "stone")]
    assert list(collection.qrels("train")) == [Judgement("1", "d1", 1)]
    facts = write_collection(collection, tmp_path / "stored", Silent())
    assert facts["notes"] == [
        f"{tmp_path}/nq[default] train: 3 negatives left out: a collection has only positives",
        "train: 1 query without a relevant document",
    ]
    assert StoredCollection.open(tmp_path / "stored").answers("train") == {"1": ("a", "b")}
    before = loader.fingerprint()
    (tmp_path / "nq" / "train.jsonl").write_text(json.dumps(ROWS[0]) + "\n")
    assert loader.fingerprint() != before


def test_parquet_rows(tmp_path: Path) -> None:
    folder = write(tmp_path, ROWS)
    (folder / "train.jsonl").unlink()
    pq.write_table(pa.Table.from_pylist(ROWS[:1]), folder / "validation-00000-of-00001.parquet")
    collection = Tevatron(str(folder), corpus=HubTable(repo=str(tmp_path / "nq-corpus"))).load()
    assert collection.splits() == ["dev"]
    assert list(collection.qrels("dev")) == [Judgement("1", "d1", 1)]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"query_id": "a b"}, "nq[default]:1: column 'query_id' must contain ids without white space"),
        ({"query": None}, "nq[default]:1: column 'query' must contain strings"),
        ({"positive_passages": "d1"}, "nq[default]:1: column 'positive_passages' must contain lists of passages"),
        ({"positive_passages": [{"text": "t"}]}, "nq[default]:1: missing column 'docid'"),
        ({"answers": "a"}, "nq[default]:1: column 'answers' must contain lists of strings"),
    ],
)
def test_mistakes(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    folder = write(tmp_path, [ROWS[0] | row])
    with pytest.raises(DataError) as raised:
        write_collection(Tevatron(str(folder)).load(), tmp_path / "stored", Silent())
    assert message in str(raised.value)


def test_a_missing_corpus(tmp_path: Path) -> None:
    folder = write(tmp_path, ROWS)
    with pytest.raises(DataError, match="cannot be opened"):
        Tevatron(str(folder), corpus=HubTable(repo=str(tmp_path / "none"))).load()
