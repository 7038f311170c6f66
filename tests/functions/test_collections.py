"""Collections in memory: dicts and tables, and the place of each mistake."""

import json

import numpy as np
import pandas
import pytest
import torch

from hardneg.datasets.beir import Beir
from hardneg.functions.given import named_qrels, split_of, write_dataset
from hardneg.functions.session import named_dataset
from hardneg.records import DataError, UsageError
from hardneg.store import Store

CORPUS = {"d1": "one river", "d2": {"title": "Two", "text": "rivers"}}
QUERIES = {"q1": "river", "q2": "rivers", "q3": "no judgement"}


def written(given, folder):
    write_dataset(given, folder)
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in files}


def test_dicts_are_written_in_beirs_form(tmp_path):
    given = {"corpus": CORPUS, "queries": QUERIES, "qrels": {"q1": {"d1": 2, "d2": 0}, "q2": ["d2"]}}
    assert written(given, tmp_path) == {
        "corpus.jsonl": '{"_id": "d1", "title": "", "text": "one river"}\n'
        '{"_id": "d2", "title": "Two", "text": "rivers"}\n',
        "queries.jsonl": '{"_id": "q1", "text": "river"}\n{"_id": "q2", "text": "rivers"}\n'
        '{"_id": "q3", "text": "no judgement"}\n',
        "qrels/train.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq2\td2\t1\n",
    }


def test_a_real_collection_has_the_digest_of_its_folder(test_data, tmp_path):
    folder = test_data / "cranfield"
    corpus, queries = (
        {row.pop("_id"): row for row in map(json.loads, (folder / name).open(encoding="utf-8"))}
        for name in ("corpus.jsonl", "queries.jsonl")
    )
    qrels = {}
    for path in (folder / "qrels").glob("*.tsv"):
        judged = qrels.setdefault(path.stem, {})
        for query_id, doc_id, grade in (line.split("\t") for line in path.read_text().splitlines()[1:]):
            judged.setdefault(query_id, {})[doc_id] = int(grade)
    texts = {query_id: row["text"] for query_id, row in queries.items()}
    write_dataset({"corpus": corpus, "queries": texts, "qrels": qrels}, tmp_path)
    assert Beir(str(tmp_path)).fingerprint() == Beir(str(folder)).fingerprint()


def test_splits_of_dicts(tmp_path):
    given = {"corpus": CORPUS, "queries": QUERIES}
    given["qrels"] = {"dev": {"q1": ["d1"]}, "test": {"q2": {"d2": 1}}}
    found = written(given, tmp_path)
    assert found["qrels/dev.tsv"].splitlines()[1:] == ["q1\td1\t1"]
    assert found["qrels/test.tsv"].splitlines()[1:] == ["q2\td2\t1"]
    assert split_of(given, "test") == "test"
    assert split_of({**given, "queries": QUERIES, "qrels": {"q1": ["d1"]}}, "test") == "train"
    assert split_of("beir:folder", "test") == "test"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({1: {"d1": 1}}, r"qrels: id 1 must be a string without"),
        ({"q1": {"d 1": 1}}, r"qrels\['q1'\]: id 'd 1' must be a string"),
        ({"q1": {"d1": True}}, r"qrels\['q1'\]\['d1'\]: the grade must be a whole number, not True"),
        ({"q1": pandas.Series([1, 2])}, r"qrels\['q1'\]: must be a dict of grades"),
    ],
)
def test_a_mistake_in_judgements_alone_is_told_with_its_place(given, told):
    with pytest.raises(DataError, match=told):
        named_qrels(given)


def test_no_judgements_are_a_mistake():
    with pytest.raises(UsageError, match="qrels is empty"):
        named_qrels({})


@pytest.mark.parametrize(
    ("part", "value", "told"),
    [
        ("corpus", {"d 1": "x"}, r"corpus: id 'd 1' must be a string"),
        ("corpus", {"d1": 7}, r"corpus\['d1'\]: must be a string"),
        ("queries", {"q1": None}, r"queries\['q1'\]: must be a string, not None"),
        ("queries", {"q1": " "}, r"queries\['q1'\]: the text is empty"),
        ("queries", [], r"queries: must be a dict by id, not list"),
        (
            "qrels",
            {"q1": {"d1": "high"}},
            r"qrels\['train'\]\['q1'\]\['d1'\]: the grade must be a whole number, not 'high'",
        ),
        ("qrels", {"q9": ["d1"]}, r"qrels\['train'\]\['q9'\]: query 'q9' is not in queries"),
        ("qrels", {"q1": ["d9"]}, r"qrels\['train'\]\['q1'\]: document 'd9' is not in corpus"),
        ("qrels", {"q1": "d1"}, r"qrels\['train'\]\['q1'\]: must be a dict of grades"),
        ("qrels", {"q1": [["d1"]]}, r"qrels\['train'\]\['q1'\]: id \['d1'\] must be a string without white"),
        ("corpus", {"d1": "half \ud800"}, r"the text of 'd1' has an unpaired surrogate, '\\ud800'"),
        ("qrels", {"a/b": {"q1": ["d1"]}}, r"split 'a/b'"),
        ("qrel", {}, r"unknown part 'qrel'; did you mean 'qrels'"),
        ("queries", {"\ufeffq1": "river"}, r"queries: id '\\ufeffq1' must be a string"),
        ("qrels", {"q1": {"d1": torch.tensor(1)}}, r"qrels\['train'\]\['q1'\]\['d1'\]: the grade .* tensor\(1\)"),
        ("qrels", {"q1": {"d1": 2**70}}, r"qrels\['train'\]\['q1'\]\['d1'\]: the grade must have at most 18 digits"),
        ("qrels", {"dev": {"q1": ["d1"]}, "q2": {"d1": 1}}, r"qrels\['q2'\]\['d1'\]: query 'd1' is not in queries"),
        ("queries", {"dev": {"q1": "river"}}, r"queries\['dev'\]: must be a string, not {'q1': 'river'}"),
    ],
)
def test_a_mistake_is_told_with_its_place(part, value, told, tmp_path):
    given = {"corpus": CORPUS, "queries": QUERIES, "qrels": {"q1": ["d1"]}, part: value}
    with pytest.raises(DataError, match=told):
        write_dataset(given, tmp_path)


def test_grades_may_be_whole_numbers_of_numpy(tmp_path):
    given = {"corpus": CORPUS, "queries": QUERIES, "qrels": {"q1": {"d1": np.int64(2)}}}
    write_dataset(given, tmp_path)
    assert (tmp_path / "qrels" / "train.tsv").read_text().splitlines()[1:] == ["q1\td1\t2"]
    assert named_qrels(given["qrels"]) == {"q1": {"d1": 2}}


def test_a_mistake_leaves_nothing_in_the_store(tmp_path):
    with pytest.raises(DataError):
        named_dataset({"corpus": CORPUS, "queries": QUERIES, "qrels": {"q1": ["d9"]}}, Store(tmp_path))
    assert [path.name for path in tmp_path.rglob("*")] == ["locks"]


@pytest.mark.parametrize("form", [None, "arrow", "pandas", "numpy", "frame"])
def test_pairs_of_texts(tmp_path, form):
    from datasets import Dataset

    rows = [
        {"anchor": "river", "positive": "one river", "negative": "a hill"},
        {"anchor": "river", "positive": "a stream", "negative": "one river"},
        {"anchor": "hill", "positive": "a hill", "negative": "a stream"},
    ]
    table = Dataset.from_list(rows)
    found = written(table.to_pandas() if form == "frame" else table.with_format(form), tmp_path)
    assert found["corpus.jsonl"].count("\n") == 3
    assert found["queries.jsonl"] == '{"_id": "q0", "text": "river"}\n{"_id": "q1", "text": "hill"}\n'
    assert found["qrels/train.tsv"].splitlines()[1:] == ["q0\td0\t1", "q0\td2\t1", "q1\td1\t1"]
    with pytest.raises(DataError, match="missing column 'positive'; rename one of: anchor, text"):
        written(Dataset.from_list([{"anchor": "a", "text": "b"}]), tmp_path)


def test_what_is_no_dataset(tmp_path):
    with pytest.raises(UsageError, match="cannot read 7; give beir:FOLDER"):
        named_dataset(7, Store(tmp_path))
