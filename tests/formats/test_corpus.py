"""The stored corpus: by row, by id, by contents."""

import operator
import pickle
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from hardneg.formats import arrays, corpus as corpus_module
from hardneg.formats.corpus import Corpus, write_corpus
from hardneg.records import ArtifactError, DataError, Document
from hardneg.runtime import Silent

TEXTS = {"d3": ("the  cat", "A"), "d1": ("the dog",), "d2": ("A the\tcat ",), "é4": ("",), "d5": ("the dog",)}
DOCUMENTS = [Document(name, *texts) for name, texts in TEXTS.items()]
ID = operator.attrgetter("doc_id")


def stored(folder: Path, documents: list[Document]) -> Corpus:
    assert write_corpus(iter(documents), folder, Silent()) == len(documents)
    return Corpus.open(folder)


@pytest.fixture(params=[8192, 2, 1])
def corpus(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Corpus:
    monkeypatch.setattr(corpus_module, "_BATCH", request.param)
    return stored(tmp_path, DOCUMENTS)


def test_by_row(corpus):
    assert len(corpus) == 5
    assert corpus.contents(np.array([4, 0, 0, 3])) == ["the dog", "A the  cat", "A the  cat", ""]
    assert list(corpus.documents()) == DOCUMENTS
    assert corpus.documents_at(np.array([3, 0, 0])) == [DOCUMENTS[3], DOCUMENTS[0], DOCUMENTS[0]]
    assert list(corpus.blocks(size=2)) == [["A the  cat", "the dog"], ["A the\tcat ", ""], ["the dog"]]
    assert list(corpus.blocks(start=1, stop=3, size=4)) == [["the dog", "A the\tcat "]]
    assert list(corpus.blocks(start=4, stop=99)) == [["the dog"]]
    assert corpus.contents(np.empty(0, np.int64)) == []


def test_doc_ids_are_a_sequence(corpus):
    ids = corpus.doc_ids
    assert (len(ids), ids[0], ids[-1], ids[np.int64(3)]) == (5, "d3", "d5", "é4")
    assert ids[1:3] == ["d1", "d2"]
    assert ids[::-2] == ["d5", "d2", "d3"]
    assert list(ids) == [document.doc_id for document in DOCUMENTS]
    assert "d1" in ids
    assert "d9" not in ids
    for index in (5, -6):
        with pytest.raises(IndexError):
            ids[index]


def test_by_id(corpus):
    assert corpus.rows(["d5", "nope", "d3", "é4", "d5", ""]).tolist() == [4, -1, 0, 3, 4, -1]
    assert corpus.rows([]).tolist() == []
    assert corpus.rows(corpus.doc_ids).tolist() == [0, 1, 2, 3, 4]


def test_by_contents(corpus):
    assert corpus.copies(np.array([0])).tolist() == [0, 2]
    assert corpus.copies(np.array([4, 2])).tolist() == [0, 1, 2, 4]
    assert corpus.copies(np.array([3])).tolist() == [3]
    assert corpus.content_hash.dtype == np.uint64
    assert corpus.content_hash[0] == corpus.content_hash[2] != corpus.content_hash[1]


def test_hashes_that_collide(tmp_path, monkeypatch):
    def weak(texts: list[str]) -> np.ndarray:
        return np.array([len(text) % 3 for text in texts], np.uint64)

    for module in (corpus_module, arrays):
        monkeypatch.setattr(module, "hash_texts", weak)
    monkeypatch.setattr("hardneg.formats.corpus.hash_texts", weak)
    corpus = stored(tmp_path, [Document(f"d{i}" * (i % 4 + 1), f"text {i // 2}") for i in range(60)])
    assert corpus.rows(list(corpus.doc_ids)).tolist() == list(range(60))
    assert corpus.rows(["d99", "x"]).tolist() == [-1, -1]
    assert corpus.copies(np.array([7, 20])).tolist() == [6, 7, 20, 21]
    with pytest.raises(DataError, match="'d1d1' occurs twice, as documents 2 and 61"):
        stored(tmp_path / "again", [*corpus.documents(), Document("d1d1", "x")])


@pytest.mark.parametrize(
    ("documents", "message"),
    [
        ([Document(name, "a") for name in ("d1", "d2", "d1")], "'d1' occurs twice, as documents 1 and 3"),
        ([Document("d 1", "a")], "id 'd 1' is empty or contains"),
        ([Document("", "a")], "id '' is empty or contains"),
        ([Document("d1", "half \udc00")], "not valid Unicode"),
        ([Document("d1", "a"), Document("d2", None)], "'d2': id, title and text must be strings"),
    ],
)
def test_bad_documents(tmp_path, documents, message):
    with pytest.raises(DataError, match=message):
        write_corpus(documents, tmp_path, Silent())


def test_no_documents(tmp_path):
    corpus = stored(tmp_path, [])
    assert (len(corpus), list(corpus.blocks()), list(corpus.doc_ids)) == (0, [], [])
    assert corpus.rows(["d1"]).tolist() == [-1]
    with pytest.raises(IndexError):
        corpus.contents(np.array([0]))


@pytest.mark.parametrize("name", ["corpus.arrow", "doc_index.npy", "content_hash.npy", "content_order.npy"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "foreign"])
def test_damaged_files(tmp_path, name, damage):
    stored(tmp_path, DOCUMENTS)
    path = tmp_path / name
    data = {"empty": b"", "cut": path.read_bytes()[:-8], "foreign": b"PK\x03\x04" * 40}
    path.unlink()
    if damage != "missing":
        path.write_bytes(data[damage])
    with pytest.raises(ArtifactError, match=name) as raised:
        Corpus.open(tmp_path)
    assert "\n" not in str(raised.value)


def test_files_of_another_corpus(tmp_path):
    stored(tmp_path / "a", DOCUMENTS)
    stored(tmp_path / "b", DOCUMENTS[:3])
    (tmp_path / "b" / "corpus.arrow").rename(tmp_path / "a" / "corpus.arrow")
    with pytest.raises(ArtifactError, match="does not match the corpus"):
        Corpus.open(tmp_path / "a")


def test_another_process_opens_it_anew(tmp_path):
    sent = pickle.dumps(stored(tmp_path, [Document(f"d{i}", "x" * 1000) for i in range(1000)]))
    assert len(sent) < 1000
    assert pickle.loads(sent).doc_ids[7] == "d7"


def test_long_documents_have_batches_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "_CHARACTERS", 10)
    corpus = stored(tmp_path, [Document(f"d{i}", "x" * (i * 4)) for i in range(5)])
    assert [batch.num_rows for batch in corpus.batches] == [2, 1, 1, 1]
    monkeypatch.setattr(corpus_module, "_LONGEST", 10)
    with pytest.raises(DataError, match="'d3' has 12 characters"):
        stored(tmp_path / "b", list(corpus.documents()))


@settings(max_examples=30)
@given(
    st.lists(st.builds(Document, st.uuids().map(str), st.text(max_size=20), st.text(max_size=4)), unique_by=ID),
    st.integers(1, 4),
)
def test_any_unicode_text_comes_back(tmp_path_factory, documents, size):
    corpus = stored(tmp_path_factory.mktemp("corpus"), documents)
    assert list(corpus.documents()) == documents
    contents = [document.contents for document in documents]
    assert [text for block in corpus.blocks(size=size) for text in block] == contents
    assert corpus.contents(np.arange(len(documents))[::-1]) == contents[::-1]
    words = [text.split() for text in contents]
    for row, own in enumerate(words):
        assert corpus.copies(np.array([row])).tolist() == [i for i, other in enumerate(words) if other == own]
