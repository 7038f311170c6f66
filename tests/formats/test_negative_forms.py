"""Negatives in everyone's form: literal contents, and back to the same ids."""

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from pyarrow import parquet

from hardneg.formats.collection import Queries
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.form_names import NAMES
from hardneg.formats.forms import TextLookup, WriteOptions, read_form, write_form, write_tevatron_corpus
from hardneg.records import ArtifactError, DataError, Document, Negatives, UsageError
from hardneg.runtime import Silent

DOCUMENTS = [
    Document("d0", "a rose is a rose"),
    Document("d1", "tulips in spring", "Tulips"),
    Document("d2", "the sea is cold"),
    Document("d3", 'ships "and"\tsails\nü'),
    Document("d4", "a rose  is a rose"),
]
QUERIES = Queries(["q1", "q2", "q3"], ["flowers", "sea", "nothing"])
ENDINGS = {form: ["parquet", "jsonl"] for form in ("triplet", "n-tuple", "labeled-list")}
ENDINGS |= {"dpr": ["json"], "hardneg": ["arrow"]}
FILES = [(form, f"out.{ending}") for form in NAMES for ending in ENDINGS.get(form, ["jsonl"])]


def item(query_id, positives, negatives, scores):
    return Negatives(query_id, positives, negatives, np.array(scores, np.float32))


ROWS = [item("q1", ["d0", "d1"], ["d2", "d3"], [0.5, 0.25]), item("q2", ["d2"], ["d3"], [0.75])]


BEYOND = "negatives left out: beyond the first"


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    write_corpus(DOCUMENTS, tmp_path / "corpus", Silent())
    return Corpus.open(tmp_path / "corpus")


def plain(items):
    return [(i.query_id, list(i.positives), list(i.negatives), np.round(i.scores, 4).tolist()) for i in items]


def written(corpus, path, form, rows=ROWS, **options):
    counts = write_form(form, path, iter(rows), QUERIES, corpus, WriteOptions(**options))
    assert not [name for name in path.parent.iterdir() if name.name.endswith(".tmp")]
    return counts


def rows_of(path):
    if path.suffix == ".parquet":
        return parquet.read_table(path).to_pylist()
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize(("form", "name"), FILES)
def test_what_is_written_is_read_back_to_the_same_ids(corpus, tmp_path, form, name):
    path, lookup = tmp_path / name, TextLookup(QUERIES, corpus)
    counts = written(corpus, path, form, negatives=1)
    assert list(counts) == ["rows", f"{BEYOND} 1 per query"]
    found = plain(read_form(form, path, lookup))
    assert [row[:3] for row in found] == [("q1", ["d0", "d1"], ["d2"]), ("q2", ["d2"], ["d3"])]
    assert not +lookup.counts


@pytest.mark.parametrize(("form", "name"), [pair for pair in FILES if not pair[0].startswith("tevatron")])
def test_scores_are_kept(corpus, tmp_path, form, name):
    known = {"q1": [2.0, 1.0], "q2": [3.0]}
    path = tmp_path / name
    options = {"scores": True, "positive_scores": lambda i: np.array(known[i.query_id], np.float32)}
    written(corpus, path, form, negatives=1, **options)
    assert [row[3] for row in plain(read_form(form, path, TextLookup(QUERIES, corpus)))] == [[0.5], [0.75]]


def test_columns_of_sentence_transformers(corpus, tmp_path):
    for ending in ("parquet", "jsonl"):
        path = tmp_path / f"t.{ending}"
        assert written(corpus, path, "triplet", negatives=1) == {"rows": 3, f"{BEYOND} 1 per query": 1}
        texts = {"anchor": "flowers", "positive": "Tulips tulips in spring", "negative": "the sea is cold"}
        assert list(rows_of(path)[1].items()) == list(texts.items())
        assert written(corpus, path, "labeled-list") == {"rows": 3}
        listed = {"positive": ["the sea is cold", DOCUMENTS[3].text], "labels": [1, 0]}
        assert rows_of(path)[2] == {"anchor": "sea", **listed}
        assert written(corpus, path, "n-tuple", negatives=2) == {"rows": 2, "rows left out: fewer than 2 negatives": 1}
        assert list(rows_of(path)[0]) == ["anchor", "positive", "negative_1", "negative_2"]


def test_scores_of_sentence_transformers_stand_last_the_positive_first(corpus, tmp_path):
    options = {"scores": True, "positive_scores": lambda i: np.array([1, np.nan][: len(i.positives)], np.float32)}
    path = tmp_path / "s.parquet"
    assert written(corpus, path, "n-tuple", negatives=2, **options)["rows left out: a document has no score"] == 1
    (row,) = rows_of(path)
    assert list(row)[-1] == "scores" and row["scores"] == [1, 0.5, 0.25]
    assert written(corpus, path, "triplet", **options)["rows"] == 3
    assert rows_of(path)[1]["scores"] == [1, 0.25]
    written(corpus, path, "labeled-list", **options)
    assert list(rows_of(path)[0]) == ["anchor", "positive", "scores"]


def test_forms_with_one_object_a_query(corpus, tmp_path):
    path = tmp_path / "x.jsonl"
    written(corpus, path, "tevatron-v1")
    passages = {"positive_passages": [{"docid": "d2", "title": "", "text": "the sea is cold"}]}
    passages["negative_passages"] = [{"docid": "d3", "title": "", "text": DOCUMENTS[3].text}]
    assert rows_of(path)[1] == {"query_id": "q2", "query": "sea", **passages}
    written(corpus, path, "tevatron-v2")
    ids = {"positive_document_ids": ["d0", "d1"], "negative_document_ids": ["d2", "d3"]}
    assert rows_of(path)[0] == {"query_id": "q1", "query_text": "flowers", **ids}
    assert write_tevatron_corpus(path, corpus) == 5
    assert rows_of(path)[1] == {"docid": "d1", "text": "Tulips tulips in spring"}
    written(corpus, path, "flagembedding")
    assert rows_of(path)[1] == {"query": "sea", "pos": ["the sea is cold"], "neg": [DOCUMENTS[3].text]}
    written(corpus, tmp_path / "x.json", "dpr", scores=True)
    first = rows_of(tmp_path / "x.json")[0]
    assert list(first) == ["question", "answers", "positive_ctxs", "negative_ctxs", "hard_negative_ctxs"]
    assert first["positive_ctxs"][1] == {"title": "Tulips", "text": "tulips in spring", "passage_id": "d1"}
    assert first["hard_negative_ctxs"][0]["score"] == 0.5


def test_what_is_left_out_is_counted(corpus, tmp_path):
    rows = [item("q1", ["d0"], [], []), item("q3", [], ["d2"], [1]), ROWS[1]]
    for form, name in FILES:
        counts = written(corpus, tmp_path / name, form, rows, negatives=1)
        if form != "hardneg":
            assert counts["rows"] == 1 and counts["queries left out: no positive"] == 1
            assert sum(counts.values()) == 3, (form, counts)


def test_unknown_texts_and_ids_are_counted(corpus, tmp_path):
    path, lookup = tmp_path / "f.jsonl", TextLookup(QUERIES, corpus)
    rows = [
        {"query": "sea", "pos": ["the  sea is cold"], "neg": ["a rose is a rose", "unseen"], "neg_scores": [2, 1]},
        {"query": "unasked", "pos": [], "neg": []},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert plain(read_form("flagembedding", path, lookup)) == [("q2", ["d2"], ["d0"], [2])]
    left_out = ["rows left out: their query is not in the split"]
    left_out += ["documents left out: their text is not in the corpus"]
    assert lookup.counts == Counter(left_out)
    path.write_text(json.dumps({"query_id": "q9", "positive_document_ids": [], "negative_document_ids": []}))
    assert not list(read_form("tevatron-v2", path, lookup))


def test_queries_of_one_text_are_read_as_the_first_and_told(corpus, tmp_path):
    path, lookup = tmp_path / "t.jsonl", TextLookup(Queries(["q1", "q2", "q3"], ["flowers", "sea", " sea"]), corpus)
    row = json.dumps({"anchor": "sea", "positive": "the sea is cold", "negative": "a rose is a rose"}) + "\n"
    path.write_text(row + row)
    assert plain(read_form("triplet", path, lookup))[0][:3] == ("q2", ["d2"], ["d0"])
    assert +lookup.counts == Counter({"query texts with several ids, matched to the first id": 1})


BAD_LABELS = '{"anchor": "sea", "positive": ["a"], "labels": [1, 0]}'


@pytest.mark.parametrize(
    ("form", "name", "content", "message"),
    [
        ("triplet", "x.jsonl", '{"anchor": "sea"}', "x.jsonl:1: field '"),
        ("triplet", "x.parquet", "no", "not a Parquet file"),
        ("n-tuple", "x.jsonl", '{"anchor": "sea", "positive": "a", "negative_1": 3}', "'negative_1' must be of type"),
        ("labeled-list", "x.jsonl", BAD_LABELS, "field 'labels' needs one number per document (1), not 2"),
        ("tevatron-v1", "x.jsonl", "\n[]", "x.jsonl:2: expected a JSON object"),
        ("tevatron-v2", "x.jsonl", "{", "x.jsonl:1: expected one JSON object per line"),
        ("dpr", "x.json", '{"question": "sea"}', "not a JSON array"),
        ("dpr", "x.json", '[{"question": "sea"}, {"a"', "x.json:1: field 'hard_negative_ctxs'"),
        ("dpr", "x.json", "[", "x.json: not JSON"),
        ("dpr", "missing.json", None, "cannot be opened"),
        ("flagembedding", "x.jsonl", '{"query": "sea", "pos": [], "neg": [1]}', "list of strings"),
    ],
)
def test_a_mistake_is_told_with_its_place(corpus, tmp_path, form, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(DataError) as caught:
        list(read_form(form, tmp_path / name, TextLookup(QUERIES, corpus)))
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_wrong_uses(corpus, tmp_path):
    for form, name in [("tripel", "x.jsonl"), ("triplet", "x.csv"), ("dpr", "x.jsonl"), ("n-tuple", "x.jsonl")]:
        with pytest.raises(UsageError):
            written(corpus, tmp_path / name, form)
    for row in (item("q9", ["d0"], [], []), item("q1", ["d9"], [], [])):
        with pytest.raises(DataError, match="9"):
            written(corpus, tmp_path / "x.jsonl", "triplet", [row])
        assert not (tmp_path / "x.jsonl").exists()
    with pytest.raises(ArtifactError):
        list(read_form("hardneg", tmp_path / "missing.arrow", TextLookup(QUERIES, corpus)))
