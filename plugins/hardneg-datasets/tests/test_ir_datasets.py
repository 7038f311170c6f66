"""Tests of the loader for ir_datasets, on datasets registered here or objects with the same interface."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
from hardneg_datasets.ir_datasets import IrDatasets

from hardneg.formats.collection import write_collection
from hardneg.records import DataError, Document, Judgement, Query
from hardneg.runtime import Silent


class Doc(NamedTuple):
    doc_id: str
    url: str
    title: str
    body: str


class Abstract(NamedTuple):
    doc_id: str
    abstract: str

    def default_text(self) -> str:
        return self.abstract


class Item(NamedTuple):
    query_id: str
    text: str


class Qrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    iteration: str


class Fake:
    """A stand-in for the result of `ir_datasets.load`, made of lists."""

    def __init__(self, docs: list[Any], queries: list[Item], qrels: list[Qrel]) -> None:
        for kind, rows in (("docs", docs), ("queries", queries), ("qrels", qrels)):
            setattr(self, f"has_{kind}", lambda rows=rows: bool(rows))
            setattr(self, f"{kind}_iter", lambda rows=rows: iter(rows))

    def metadata(self) -> dict[str, Any]:
        return {"docs": {"count": 2}}


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> dict[str, Fake]:
    docs = [Doc("d1", "u", "River", "old water"), Abstract("d2", "a bridge")]
    found = {
        "shelf": Fake(docs, [], []),
        "shelf/train": Fake(docs, [Item("1", "water"), Item("2", "no one")], [Qrel("1", "d1", 2, "0")]),
        "shelf/valid": Fake(docs, [Item("3", "stone")], [Qrel("3", "d2", 1, "0")]),
        "shelf/eval": Fake(docs, [Item("4", "tower")], []),
    }
    module = ModuleType("ir_datasets")
    module.load = found.__getitem__  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ir_datasets", module)
    return found


def test_subsets_are_splits(catalogue: dict[str, Fake], tmp_path: Path) -> None:
    loader = IrDatasets("shelf")
    collection = loader.load()
    assert list(collection.documents()) == [Document("d1", "old water", "River"), Document("d2", "a bridge")]
    assert collection.splits() == ["train", "dev"]
    assert list(collection.queries("train")) == [Query("1", "water")]
    assert list(collection.qrels("dev")) == [Judgement("3", "d2", 1)]
    assert loader.size_hint() == 2
    notes = write_collection(collection, tmp_path, Silent())["notes"]
    assert notes == ["ir-datasets:shelf queries of train: 1 query without judgements left out"]
    before = loader.fingerprint()
    catalogue["shelf/valid"] = Fake([], [Item("3", "stones")], [Qrel("3", "d2", 1, "0")])
    assert loader.fingerprint() != before


def test_a_subset_without_judgements_is_no_split(catalogue: dict[str, Fake]) -> None:
    catalogue["shelf/test"] = Fake([], [Item("5", "bridge")], [])
    assert IrDatasets("shelf").load().splits() == ["train", "dev"]


def test_one_id_is_one_split(catalogue: dict[str, Fake]) -> None:
    assert IrDatasets("shelf/valid").load().splits() == ["dev"]
    assert IrDatasets("shelf", {"test": "shelf/valid"}).load().splits() == ["test"]


def test_mistakes(catalogue: dict[str, Fake]) -> None:
    with pytest.raises(DataError, match="ir-datasets:none: unknown to the installed ir_datasets"):
        IrDatasets("none").load()
    with pytest.raises(DataError, match="test without queries or qrels"):
        IrDatasets("shelf", {"test": "shelf/eval"}).load()
    with pytest.raises(DataError, match="no subset with queries and qrels"):
        IrDatasets("shelf/eval").load()

    def torn() -> Iterator[Doc]:
        yield Doc("d1", "", "", "t")
        raise OSError("download failed\nmore")

    catalogue["shelf"].docs_iter = torn  # type: ignore[attr-defined]
    with pytest.raises(DataError, match=r"ir-datasets:shelf documents:2: cannot be read \(download failed\)$"):
        list(IrDatasets("shelf").load().documents())


def test_a_registered_dataset(tmp_path: Path) -> None:
    ir_datasets = pytest.importorskip("ir_datasets")
    (tmp_path / "docs.tsv").write_text("d1\told water\nd2\ta bridge\n")
    (tmp_path / "queries.tsv").write_text("1\twater\n")
    (tmp_path / "qrels.txt").write_text("1 0 d1 1\n")
    paths = (str(tmp_path / name) for name in ("docs.tsv", "queries.tsv", "qrels.txt"))
    dataset = ir_datasets.create_dataset(*paths)
    ir_datasets.registry.register("hardneg-made-here/test", dataset)
    loader = IrDatasets("hardneg-made-here/test")
    collection = loader.load()
    assert list(collection.documents()) == [Document("d1", "old water"), Document("d2", "a bridge")]
    assert list(collection.queries("test")) == [Query("1", "water")]
    assert list(collection.qrels("test")) == [Judgement("1", "d1", 1)]
    before = loader.fingerprint()
    (tmp_path / "docs.tsv").write_text("d1\tnew water\nd2\ta bridge\n")
    assert loader.fingerprint() != before


@pytest.fixture
def no_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The real catalogue with downloads forbidden; returns the folder for its files."""
    ir_datasets = pytest.importorskip("ir_datasets")

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a download began")

    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path))
    monkeypatch.setattr(ir_datasets.util.RequestsDownload, "stream", refuse)
    for name in ("path", "stream"):
        monkeypatch.setattr(ir_datasets.util.Download, name, refuse)
    return tmp_path


@pytest.mark.parametrize("name", ["msmarco-document", "beir/scifact/test", "dpr-w100/natural-questions/dev"])
def test_the_fingerprint_of_a_catalogued_id_fetches_nothing(name: str, no_downloads: Path) -> None:
    before = IrDatasets(name).fingerprint()
    assert IrDatasets(name).size_hint() > 0
    (no_downloads / name.partition("/")[0]).mkdir(exist_ok=True)
    (no_downloads / name.partition("/")[0] / "collection.tsv.gz").write_bytes(b"what a download leaves")
    assert IrDatasets(name).fingerprint() == before
    assert IrDatasets(name, {"dev": "msmarco-passage/dev/small"}).fingerprint() != before
