"""Any data file is read, or told to be wrong, and nothing is written beside the folder that was named."""

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz.fuzzing import NASTY, fuzzed, mangled, paths_below, read_or_one_line, scalars, texts, values
from hypothesis import given, strategies as st

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import Queries, StoredCollection, write_collection
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.formats.form_names import ENDINGS
from hardneg.formats.forms import TextLookup, read_form
from hardneg.formats.negatives import write_negatives
from hardneg.formats.qrels import read_qrels
from hardneg.formats.runs import read_run, stream_run
from hardneg.formats.vectors_import import import_vectors, open_vectors
from hardneg.records import Document
from hardneg.runtime import Silent

cells = st.sampled_from(["q1", "q2", "d1", "d2", "0", "1", "0.5", "a text", *NASTY]) | texts


def joined(items, separator):
    return separator.join(items).encode("utf-8", "surrogatepass")


def tables(columns, separators="\t "):
    row = st.tuples(st.lists(cells, min_size=columns - 1, max_size=columns + 1), st.sampled_from(separators))
    lines = st.lists(row.map(lambda item: joined(*item)), max_size=5)
    return mangled(lines.map(b"\n".join))


def json_lines(*names):
    fields = {name: st.sampled_from(["d1", "d2", "q1", "a text", ["d1", "d2"], ["a text"]]) | values for name in names}
    rows = st.fixed_dictionaries({}, optional=fields).map(json.dumps) | values.map(json.dumps) | texts
    special = st.sampled_from(
        ['{"_id": "d1", "_id": "d2", "text": "x"}', "[" * 2000, '{"a": 1' + "0" * 5000 + "}", '{"x": NaN}']
    )
    return mangled(st.lists(rows | special, max_size=5).map(lambda lines: joined(lines, "\n")))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def stored(loader, folder):
    before = paths_below(folder.parent)
    target = folder.parent / "stored"
    write_collection(loader.load(), target, Silent())
    collection = StoredCollection.open(target)
    collection.all_qrels()
    [list(collection.queries(split)) for split in collection.splits]
    assert all(target in (path, *path.parents) for path in paths_below(folder.parent) - before)


@fuzzed
@given(corpus=json_lines("_id", "title", "text"), queries=json_lines("_id", "text"), qrels=tables(3))
def test_beir(tmp_path_factory, corpus, queries, qrels):
    folder = tmp_path_factory.mktemp("b") / "data"
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_bytes(corpus)
    (folder / "queries.jsonl").write_bytes(queries)
    (folder / "qrels" / "test.tsv").write_bytes(qrels)
    read_or_one_line(lambda: stored(Beir(str(folder)), folder))


@fuzzed
@given(data=tables(6))
def test_runs(folder, data):
    (folder / "run").write_bytes(data)
    read_or_one_line(lambda: read_run(folder / "run"))
    read_or_one_line(lambda: list(stream_run(folder / "run")))


@fuzzed
@given(data=tables(4))
def test_qrels(folder, data):
    (folder / "qrels").write_bytes(data)
    read_or_one_line(lambda: read_qrels(folder / "qrels"))


FIELDS = {
    "triplet": ("anchor", "positive", "negative", "scores"),
    "n-tuple": ("anchor", "positive", "negative_1", "negative_2", "scores"),
    "labeled-list": ("anchor", "positive", "labels", "scores"),
    "tevatron-v1": ("query_id", "positive_passages", "negative_passages"),
    "tevatron-v2": ("query_id", "positive_document_ids", "negative_document_ids"),
    "dpr": ("question", "positive_ctxs", "hard_negative_ctxs", "negative_ctxs"),
    "flagembedding": ("query", "pos", "neg", "neg_scores"),
}


@pytest.fixture(scope="module")
def lookup(tmp_path_factory):
    place = tmp_path_factory.mktemp("lookup")
    write_corpus([Document("d1", "a text"), Document("d2", "another")], place, Silent())
    return lambda: TextLookup(Queries(["q1", "q2"], ["a text", "q1"]), Corpus.open(place))


@pytest.mark.parametrize("form", [name for name in ENDINGS if name != "hardneg"])
@fuzzed
@given(data=st.data())
def test_forms_of_negatives(folder, lookup, form, data):
    path = folder / f"{form}{ENDINGS[form][-1]}"
    rows = data.draw(json_lines(*FIELDS[form]))
    if form == "dpr":
        rows = data.draw(mangled(st.just(b"[" + b",".join(rows.split(b"\n")) + b"]")))
    path.write_bytes(rows)
    read_or_one_line(lambda: write_negatives(folder / "out.arrow", read_form(form, path, lookup())))


@fuzzed
@given(data=mangled(st.binary(max_size=60)))
def test_parquet_and_arrow(folder, lookup, data):
    for form, name in (("triplet", "t.parquet"), ("hardneg", "n.arrow")):
        (folder / name).write_bytes(data)
        read_or_one_line(lambda form=form, name=name: list(read_form(form, folder / name, lookup())))


ARRAYS = [np.eye(2, 3, dtype="float32"), np.eye(2, dtype="float16"), np.full((2, 2), np.nan), np.full((2, 2), 1e300)]
ARRAYS += [
    np.zeros((2, 0)),
    np.zeros(2),
    np.zeros((2, 2), complex),
    np.array(["x"]),
    np.array([{"a": 1}], dtype=object),
]


def npy(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@fuzzed
@given(vectors=mangled(st.sampled_from(ARRAYS).map(npy)), ids=tables(1))
def test_vectors_of_numpy(tmp_path_factory, vectors, ids):
    folder = tmp_path_factory.mktemp("v")
    (folder / "v.npy").write_bytes(vectors)
    (folder / "ids").write_bytes(ids)
    read_or_one_line(lambda: import_vectors(open_vectors(folder / "v.npy", folder / "ids"), folder / "index", Silent()))
    assert {path.name for path in folder.iterdir()} <= {"v.npy", "ids", "index"}


TABLES = [
    {"id": ["a", "b"], "vector": [[1.0, 2.0], [3.0, 4.0]]},
    {"_id": [1, 2], "emb": [[1.0], None], "title": ["x", "y"]},
    {"id": ["a", "a b"], "x": [[1.0], [2.0]], "y": [[1.0], [float("nan")]]},
    {"id": [b"a"], "vector": [["x"]]},
]


def parquet(columns):
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file)
    return file.getvalue()


@fuzzed
@given(data=mangled(st.sampled_from(TABLES).map(parquet)))
def test_vectors_of_parquet(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("p")
    (folder / "v.parquet").write_bytes(data)
    read_or_one_line(lambda: import_vectors(open_vectors(folder / "v.parquet"), folder / "index", Silent()))
    assert {path.name for path in folder.iterdir()} <= {"v.parquet", "index"}


@fuzzed
@given(
    data=json_lines("id", "contents", "vector")
    | st.lists(scalars, max_size=3).map(lambda v: json.dumps({"id": "d", "vector": v}).encode())
)
def test_vectors_of_json_lines(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("j")
    (folder / "e.jsonl").write_bytes(data)
    read_or_one_line(lambda: import_vectors(open_vectors(folder / "e.jsonl"), folder / "index", Silent()))
