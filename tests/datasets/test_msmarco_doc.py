"""MS MARCO's documents."""

import gzip
from pathlib import Path

import pytest

from hardneg.datasets.msmarco import MsMarcoDocument
from hardneg.formats.collection import write_collection
from hardneg.formats.collection_check import check
from hardneg.records.errors import DataError
from hardneg.records.types import Document, Judgement, Query
from hardneg.runtime.progress import Silent

FILES = {
    "msmarco-docs.tsv": "D1\thttp://a\tRivers\tthe old river\nD2\thttp://b\t\tthe quiet bridge\n",
    "msmarco-doctrain-queries.tsv": "3\twhat is\n4\tunjudged\n",
    "msmarco-doctrain-qrels.tsv": "3 0 D1 1\n",
    "msmarco-docdev-queries.tsv": "5\twho was\n",
    "msmarco-docdev-qrels.tsv": "5 0 D2 1\n",
    "msmarco-test2019-queries.tsv": "7\twhere\n",
    "2019qrels-docs.txt": "7 0 D1 3\n7 0 D2 0\n",
    "topics.dl20.txt": "8\twhen\n",
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
    collection = MsMarcoDocument(str(folder)).load()
    assert list(collection.documents()) == [
        Document("D1", "the old river", "Rivers"),
        Document("D2", "the quiet bridge", ""),
    ]
    assert collection.splits() == ["train", "dev", "test2019"]
    assert list(collection.queries("train")) == [Query("3", "what is")]
    assert list(collection.qrels("test2019")) == [Judgement("7", "D1", 3), Judgement("7", "D2", 0)]
    end = ".gz" if packed else ""
    assert collection.notes() == [
        f"topics.dl20.txt{end}: left out, it has no counterpart",
        f"{folder}/msmarco-doctrain-queries.tsv{end}: 1 query left out: no judgement names them",
    ]
    assert list(check(collection.parts())) == []


def test_url_before_the_text(folder: Path) -> None:
    plain, with_url = MsMarcoDocument(str(folder)), MsMarcoDocument(str(folder), url=True)
    assert next(iter(with_url.load().documents())).contents == "Rivers http://a the old river"
    assert plain.fingerprint() != with_url.fingerprint()


def test_splits_by_hand(folder: Path) -> None:
    loader = MsMarcoDocument(str(folder), splits={"test": ("topics.dl20.txt", "2019qrels-docs.txt")})
    (folder / "topics.dl20.txt").write_text("<top>\n<num> Number: 7\n<title> where\n</top>\n")
    assert list(loader.load().queries("test")) == [Query("7", "where")]
    wrong = MsMarcoDocument(str(folder), splits={"test": ("topics.dl20.txt", "no.txt")})
    with pytest.raises(DataError, match=r"neither no\.txt nor no\.txt\.gz, which `splits` names"):
        wrong.load()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("msmarco-docs.tsv", "D1\ta\tb\n", "msmarco-docs.tsv:1: 3 columns"),
        ("msmarco-docs.tsv", "D 1\ta\tb\tc\n", "msmarco-docs.tsv:1: id 'D 1'"),
        ("msmarco-docdev-queries.tsv", "5 who was\n", "msmarco-docdev-queries.tsv:1: 1 column"),
        ("queries.dev.tsv", "5\twho was\n", "are both of split dev"),
    ],
)
def test_mistakes(folder: Path, tmp_path_factory: pytest.TempPathFactory, name: str, text: str, message: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(DataError) as raised:
        write_collection(MsMarcoDocument(str(folder)).load(), tmp_path_factory.mktemp("stored"), Silent())
    assert message in str(raised.value)


def test_missing_files(folder: Path) -> None:
    (folder / "msmarco-docs.tsv").unlink()
    with pytest.raises(DataError, match=r"neither msmarco-docs\.tsv nor"):
        MsMarcoDocument(str(folder)).load()
    for path in folder.glob("*qrels*"):
        path.unlink()
    (folder / "msmarco-docs.tsv").write_text(FILES["msmarco-docs.tsv"])
    with pytest.raises(DataError, match="no split has both topics and qrels"):
        MsMarcoDocument(str(folder)).load()
