"""MS MARCO's tab-separated files."""

import gzip
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hardneg.datasets.msmarco import MsMarcoPassage
from hardneg.formats.collection import write_collection
from hardneg.records.errors import DataError, HardnegError
from hardneg.records.types import Document, Judgement, Query
from hardneg.runtime.progress import Silent

FILES = {
    "collection.tsv": "0\tThe presence of\n1\tsecond passage\n",
    "queries.train.tsv": "10\twhat is\n11\tunjudged\n12\twho was\n",
    "qrels.train.tsv": "12\t0\t1\t1\n10\t0\t0\t1\n",
    "queries.dev.tsv": "20\tlarge dev\n",
    "queries.dev.small.tsv": "30\tsmall dev\n",
    "qrels.dev.small.tsv": "30\t0\t1\t1\n",
    "queries.eval.tsv": "40\teval\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize("packed", [False, True])
def test_official_names(folder: Path, packed: bool) -> None:
    if packed:
        for name, text in FILES.items():
            (folder / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
            (folder / name).unlink()
    loader = MsMarcoPassage(str(folder))
    collection = loader.load()
    assert list(collection.documents()) == [Document("0", "The presence of"), Document("1", "second passage")]
    assert collection.splits() == ["train", "dev"]
    assert list(collection.queries("train")) == [Query("10", "what is"), Query("12", "who was")]
    assert list(collection.queries("dev")) == [Query("30", "small dev")]
    assert list(collection.qrels("train")) == [Judgement("12", "1", 1), Judgement("10", "0", 1)]
    end = ".gz" if packed else ""
    assert collection.notes() == [
        f"queries.dev.tsv{end}: left out, it has no counterpart",
        f"queries.eval.tsv{end}: left out, it has no counterpart",
        f"{folder}/queries.train.tsv{end}: 1 query left out: no judgement names them",
    ]
    assert loader.size_hint() == 2


def test_small_beside_a_complete_dev(folder: Path) -> None:
    (folder / "qrels.dev.tsv").write_text("20\t0\t0\t1\n")
    collection = MsMarcoPassage(str(folder)).load()
    assert collection.splits() == ["train", "dev", "dev.small"]
    assert list(collection.queries("dev")) == [Query("20", "large dev")]
    assert list(collection.queries("dev.small")) == [Query("30", "small dev")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("collection.tsv", "0\ta\n1 b\n", "collection.tsv:2: 1 column"),
        ("collection.tsv", "0\ta\tb\n", "collection.tsv:1: 3 columns"),
        ("collection.tsv", "a b\tc\n", "collection.tsv:1: id 'a b'"),
        ("collection.tsv", "0\ta\n0\tb\n", "document id '0' occurs twice"),
        ("queries.train.tsv", "10\ta\n10\ta\n", "queries.train.tsv:2: query id '10' stands there twice"),
        ("qrels.train.tsv", "10\t0\t1\tx\n", "qrels.train.tsv:1: relevance 'x'"),
    ],
)
def test_mistakes(folder: Path, tmp_path_factory: pytest.TempPathFactory, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(DataError) as raised:
        write_collection(MsMarcoPassage(str(folder)).load(), tmp_path_factory.mktemp("stored"), Silent())
    assert message in str(raised.value)


def test_missing_files(folder: Path) -> None:
    (folder / "qrels.train.tsv").unlink()
    (folder / "qrels.dev.small.tsv").unlink()
    with pytest.raises(DataError, match="no split has both"):
        MsMarcoPassage(str(folder)).load()
    (folder / "collection.tsv").unlink()
    with pytest.raises(DataError, match=r"neither collection\.tsv nor"):
        MsMarcoPassage(str(folder)).load()


def test_fingerprint_follows_what_is_read(folder: Path) -> None:
    before = MsMarcoPassage(str(folder)).fingerprint()
    (folder / "queries.eval.tsv").write_text("changed")
    assert MsMarcoPassage(str(folder)).fingerprint() == before
    (folder / "qrels.train.tsv").write_text("12\t0\t0\t1\n")
    assert MsMarcoPassage(str(folder)).fingerprint() != before


LINES = st.lists(st.sampled_from([b"1\ta", b"2\tb", b"1 0 2 1", b"1 0 1 0"]) | st.binary(max_size=8), max_size=4)


@settings(max_examples=100)
@given(*[LINES.map(b"\n".join)] * 3)
def test_no_bytes_give_another_error(
    tmp_path_factory: pytest.TempPathFactory, corpus: bytes, queries: bytes, qrels: bytes
) -> None:
    folder = tmp_path_factory.mktemp("fuzz")
    for name, data in (("collection", corpus), ("queries.dev", queries), ("qrels.dev", qrels)):
        (folder / f"{name}.tsv").write_bytes(data)
    try:
        write_collection(MsMarcoPassage(str(folder)).load(), folder / "stored", Silent())
    except HardnegError as error:
        assert "\n" not in str(error)
