"""Contract tests of all dataset loaders in this package."""

import json
from pathlib import Path

import pytest
from hardneg_datasets.dpr import Dpr
from hardneg_datasets.ir_datasets import IrDatasets
from hardneg_datasets.msmarco import MsMarcoDocument, MsMarcoPassage
from hardneg_datasets.pyserini import Pyserini
from hardneg_datasets.tevatron import Tevatron

from hardneg.testing import DatasetTests

TEXTS = {"d1": "an old river", "d2": "a blue harbor", "d3": "the quiet bridge"}


class TestMsMarco(DatasetTests):
    def write(self, folder: Path) -> None:
        (folder / "collection.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in TEXTS.items()))
        (folder / "queries.dev.tsv").write_text("1\triver\n2\tbridge\n")
        (folder / "qrels.dev.tsv").write_text("1\t0\td1\t1\n2\t0\td3\t1\n")

    def make(self, folder: Path) -> MsMarcoPassage:
        return MsMarcoPassage(str(folder))

    def change(self, folder: Path) -> None:
        (folder / "qrels.dev.tsv").write_text("1\t0\td1\t1\n2\t0\td2\t1\n")


class TestMsMarcoDoc(DatasetTests):
    def write(self, folder: Path) -> None:
        rows = (f"{name}\thttp://a\ttitle\t{text}\n" for name, text in TEXTS.items())
        (folder / "msmarco-docs.tsv").write_text("".join(rows))
        (folder / "msmarco-docdev-queries.tsv").write_text("1\triver\n2\tbridge\n")
        (folder / "msmarco-docdev-qrels.tsv").write_text("1 0 d1 1\n2 0 d3 1\n")

    def make(self, folder: Path) -> MsMarcoDocument:
        return MsMarcoDocument(str(folder), url=True)

    def change(self, folder: Path) -> None:
        (folder / "msmarco-docdev-qrels.tsv").write_text("1 0 d1 1\n2 0 d2 1\n")


class TestPyserini(DatasetTests):
    def write(self, folder: Path) -> None:
        (folder / "corpus").mkdir()
        rows = [json.dumps({"id": name, "contents": text}) + "\n" for name, text in TEXTS.items()]
        (folder / "corpus" / "part.jsonl").write_text("".join(rows))
        (folder / "topics.test.tsv").write_text("1\triver\n2\tbridge\n")
        (folder / "qrels.test.txt").write_text("1 0 d1 1\n2 0 d3 1\n")

    def make(self, folder: Path) -> Pyserini:
        return Pyserini(str(folder), splits={"test": ("topics.test.tsv", "qrels.test.txt")})

    def change(self, folder: Path) -> None:
        (folder / "topics.test.tsv").write_text("1\tharbor\n2\tbridge\n")


class TestDpr(DatasetTests):
    def write(self, folder: Path) -> None:
        rows = (f"{name}\t{text}\ttitle\n" for name, text in TEXTS.items())
        (folder / "psgs_w100.tsv").write_text("id\ttext\ttitle\n" + "".join(rows))
        question = {"question": "river", "answers": ["a"], "positive_ctxs": [{"passage_id": "d1"}]}
        (folder / "biencoder-nq-dev.json").write_text(json.dumps([question]))

    def make(self, folder: Path) -> Dpr:
        return Dpr(str(folder))

    def change(self, folder: Path) -> None:
        path = folder / "biencoder-nq-dev.json"
        path.write_text(path.read_text().replace("d1", "d2"))


class TestIrDatasets(DatasetTests):
    @pytest.fixture(autouse=True)
    def catalogue(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        package = pytest.importorskip("ir_datasets")
        names = ("docs.tsv", "queries.tsv", "qrels.txt")

        def load(name: str) -> object:
            return package.create_dataset(*(str(next(tmp_path.rglob(name))) for name in names))

        monkeypatch.setattr(package, "load", load)

    def write(self, folder: Path) -> None:
        (folder / "docs.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in TEXTS.items()))
        (folder / "queries.tsv").write_text("1\triver\n2\tbridge\n")
        (folder / "qrels.txt").write_text("1 0 d1 1\n2 0 d3 1\n")

    def make(self, folder: Path) -> IrDatasets:
        return IrDatasets("made/test")

    def change(self, folder: Path) -> None:
        (folder / "docs.tsv").write_text("d1\tanother river\n")


@pytest.mark.usefixtures("datasets_cache")
class TestTevatron(DatasetTests):
    def write(self, folder: Path) -> None:
        rows = [{"docid": name, "text": text} for name, text in TEXTS.items()]
        question = {"query_id": "q1", "query": "river", "positive_passages": [{"docid": "d1"}]}
        for name, table in {"rows-corpus/train": rows, "rows/test": [question]}.items():
            path = folder / f"{name}.jsonl"
            path.parent.mkdir()
            path.write_text("".join(json.dumps(row) + "\n" for row in table))

    def make(self, folder: Path) -> Tevatron:
        return Tevatron(str(folder / "rows"))

    def change(self, folder: Path) -> None:
        path = folder / "rows-corpus" / "train.jsonl"
        path.write_text(path.read_text().replace("old", "new"))
