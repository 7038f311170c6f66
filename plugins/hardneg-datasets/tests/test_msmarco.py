"""Tests of MS MARCO's tab-separated passages and documents."""

import gzip
import re
from pathlib import Path

import pytest
from hardneg_datasets.check import check
from hardneg_datasets.msmarco import MsMarcoDocument, MsMarcoPassage

from hardneg.formats.collection import write_collection
from hardneg.records import DataError, Document, Judgement, Query
from hardneg.runtime import Silent

PASSAGES = {
    "collection.tsv": "0\tThe presence of\n1\tsecond passage\n",
    "queries.train.tsv": "10\twhat is\n11\tunjudged\n12\twho was\n",
    "qrels.train.tsv": "12\t0\t1\t1\n10\t0\t0\t1\n",
    "queries.dev.tsv": "20\tlarge dev\n",
    "queries.dev.small.tsv": "30\tsmall dev\n",
    "qrels.dev.small.tsv": "30\t0\t1\t1\n",
    "queries.eval.tsv": "40\teval\n",
}
DOCUMENTS = {
    "msmarco-docs.tsv": "D1\thttp://a\tRivers\tthe old river\nD2\thttp://b\t\tthe quiet bridge\n",
    "msmarco-doctrain-queries.tsv": "3\twhat is\n4\tunjudged\n",
    "msmarco-doctrain-qrels.tsv": "3 0 D1 1\n",
    "msmarco-docdev-queries.tsv": "5\twho was\n",
    "msmarco-docdev-qrels.tsv": "5 0 D2 1\n",
    "msmarco-test2019-queries.tsv": "7\twhere\n",
    "2019qrels-docs.txt": "7 0 D1 3\n7 0 D2 0\n",
    "topics.dl20.txt": "8\twhen\n",
}


def written(folder: Path, files: dict[str, str], packed: bool = False) -> str:
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        else:
            (folder / name).write_text(text)
    return str(folder)


@pytest.fixture
def passages(tmp_path: Path) -> Path:
    return Path(written(tmp_path / "passages", PASSAGES))


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    return Path(written(tmp_path / "documents", DOCUMENTS))


@pytest.mark.parametrize("packed", [False, True])
def test_official_names_of_passages(tmp_path, packed):
    folder = written(tmp_path, PASSAGES, packed)
    loader = MsMarcoPassage(folder)
    collection = loader.load()
    assert list(collection.documents()) == [Document("0", "The presence of"), Document("1", "second passage")]
    assert collection.splits() == ["train", "dev"]
    assert list(collection.queries("train")) == [Query("10", "what is"), Query("12", "who was")]
    assert list(collection.queries("dev")) == [Query("30", "small dev")]
    assert list(collection.qrels("train")) == [Judgement("12", "1", 1), Judgement("10", "0", 1)]
    end = ".gz" if packed else ""
    assert collection.notes() == [
        f"queries.dev.tsv{end}: left out; no matching file",
        f"queries.eval.tsv{end}: left out; no matching file",
        f"{folder}/queries.train.tsv{end}: 1 query without judgements left out",
    ]
    assert loader.size_hint() == 2


@pytest.mark.parametrize("packed", [False, True])
def test_official_names_of_documents(tmp_path, packed):
    folder = written(tmp_path, DOCUMENTS, packed)
    collection = MsMarcoDocument(folder).load()
    first, second = collection.documents()
    assert first == Document("D1", "the old river", "Rivers") and second == Document("D2", "the quiet bridge", "")
    assert collection.splits() == ["train", "dev", "test2019"]
    assert list(collection.queries("train")) == [Query("3", "what is")]
    assert list(collection.qrels("test2019")) == [Judgement("7", "D1", 3), Judgement("7", "D2", 0)]
    end = ".gz" if packed else ""
    assert collection.notes() == [
        f"topics.dl20.txt{end}: left out; no matching file",
        f"{folder}/msmarco-doctrain-queries.tsv{end}: 1 query without judgements left out",
    ]
    assert list(check(collection.parts())) == []


def test_small_beside_a_complete_dev(passages):
    (passages / "qrels.dev.tsv").write_text("20\t0\t0\t1\n")
    collection = MsMarcoPassage(str(passages)).load()
    assert collection.splits() == ["train", "dev", "dev.small"]
    assert list(collection.queries("dev")) == [Query("20", "large dev")]
    assert list(collection.queries("dev.small")) == [Query("30", "small dev")]


def test_url_before_the_text(documents):
    plain, with_url = MsMarcoDocument(str(documents)), MsMarcoDocument(str(documents), url=True)
    assert next(iter(with_url.load().documents())).contents == "Rivers http://a the old river"
    assert plain.fingerprint() != with_url.fingerprint()


def test_splits_by_hand(documents):
    loader = MsMarcoDocument(str(documents), splits={"test": ("topics.dl20.txt", "2019qrels-docs.txt")})
    (documents / "topics.dl20.txt").write_text("<top>\n<num> Number: 7\n<title> where\n</top>\n")
    assert list(loader.load().queries("test")) == [Query("7", "where")]
    wrong = MsMarcoDocument(str(documents), splits={"test": ("topics.dl20.txt", "no.txt")})
    with pytest.raises(DataError, match=r"no no\.txt or no\.txt\.gz, which `splits` refers to"):
        wrong.load()


@pytest.mark.parametrize(
    ("kind", "name", "text", "message"),
    [
        (MsMarcoPassage, "collection.tsv", "0\ta\n1 b\n", "collection.tsv:2: expected 2 columns"),
        (MsMarcoPassage, "collection.tsv", "0\ta\tb\n", "collection.tsv:1: expected 2 columns"),
        (MsMarcoPassage, "collection.tsv", "a b\tc\n", "collection.tsv:1: id 'a b'"),
        (MsMarcoPassage, "collection.tsv", "0\ta\n0\tb\n", "document id '0' occurs twice"),
        (MsMarcoPassage, "queries.train.tsv", "10\ta\n10\ta\n", "queries.train.tsv:2: query id '10' is repeated"),
        (MsMarcoPassage, "qrels.train.tsv", "10\t0\t1\tx\n", "qrels.train.tsv:1: relevance 'x'"),
        (MsMarcoDocument, "msmarco-docs.tsv", "D1\ta\tb\n", "msmarco-docs.tsv:1: expected 4 columns"),
        (MsMarcoDocument, "msmarco-docs.tsv", "D 1\ta\tb\tc\n", "msmarco-docs.tsv:1: id 'D 1'"),
        (MsMarcoDocument, "msmarco-docdev-queries.tsv", "5 who was\n", "msmarco-docdev-queries.tsv:1: expected 2"),
        (MsMarcoDocument, "queries.dev.tsv", "5\twho was\n", "both belong to split dev"),
    ],
)
def test_mistakes(tmp_path, kind, name, text, message):
    files = PASSAGES if kind is MsMarcoPassage else DOCUMENTS
    folder = written(tmp_path / "given", {**files, name: text})
    with pytest.raises(DataError) as raised:
        write_collection(kind(folder).load(), tmp_path / "stored", Silent())
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("kind", "files", "texts", "both"),
    [
        (MsMarcoPassage, PASSAGES, "collection.tsv", "topics and qrels"),
        (MsMarcoDocument, DOCUMENTS, "msmarco-docs.tsv", "topics and qrels"),
    ],
)
def test_missing_files(tmp_path, kind, files, texts, both):
    without_texts = written(tmp_path / "no texts", {name: text for name, text in files.items() if name != texts})
    with pytest.raises(DataError, match=re.escape(f"no {texts} or")):
        kind(without_texts).load()
    unjudged = written(tmp_path / "no qrels", {name: text for name, text in files.items() if "qrels" not in name})
    with pytest.raises(DataError, match=f"no split has both {both}"):
        kind(unjudged).load()


def test_fingerprint_follows_what_is_read(passages):
    before = MsMarcoPassage(str(passages)).fingerprint()
    (passages / "queries.eval.tsv").write_text("changed")
    assert MsMarcoPassage(str(passages)).fingerprint() == before
    (passages / "qrels.train.tsv").write_text("12\t0\t0\t1\n")
    assert MsMarcoPassage(str(passages)).fingerprint() != before


def test_passages_alone_of_a_folder_without_qrels(tmp_path):
    source = written(tmp_path / "passages", {"collection.tsv": PASSAGES["collection.tsv"]})
    with pytest.raises(DataError, match="no split has both"):
        MsMarcoPassage(source).load()
    collection = MsMarcoPassage(source, judged=False).load()
    assert [each.doc_id for each in collection.documents()] == ["0", "1"] and not collection.splits()
