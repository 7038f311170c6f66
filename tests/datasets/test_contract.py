"""Every built-in dataset against the kit that authors of plugins use."""

import json
from pathlib import Path

import pytest

from hardneg.datasets.beir import Beir
from hardneg.datasets.hugging_face import HuggingFace
from hardneg.datasets.pydocs import PyDocs
from hardneg.testing import DatasetTests

TEXTS = {"d1": "an old river", "d2": "a blue harbor", "d3": "the quiet bridge"}
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t2\n"


class TestBeir(DatasetTests):
    def write(self, folder: Path) -> None:
        lines = [json.dumps({"_id": doc_id, "title": "", "text": text}) + "\n" for doc_id, text in TEXTS.items()]
        (folder / "corpus.jsonl").write_text("".join(lines))
        (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "river"}\n{"_id": "q2", "text": "bridge"}\n')
        (folder / "qrels").mkdir()
        (folder / "qrels" / "test.tsv").write_text(QRELS)

    def make(self, folder: Path) -> Beir:
        return Beir(str(folder))

    def change(self, folder: Path) -> None:
        path = folder / "corpus.jsonl"
        path.write_text(path.read_text().replace("old", "new"))


class TestPyDocs(DatasetTests):
    plugin = PyDocs(packages=("yaml", "typer"), max_passages=40)


@pytest.mark.usefixtures("datasets_cache")
class TestHuggingFace(DatasetTests):
    def write(self, folder: Path) -> None:
        rows = [{"_id": doc_id, "title": "", "text": text} for doc_id, text in TEXTS.items()]
        judged = [dict(zip(("query-id", "corpus-id", "score"), row, strict=True)) for row in _JUDGED]
        queries = [{"_id": "q1", "text": "river"}, {"_id": "q2", "text": "bridge"}]
        for name, table in {"corpus/corpus": rows, "queries/queries": queries, "qrels/test": judged}.items():
            path = folder / f"{name}.jsonl"
            path.parent.mkdir()
            path.write_text("".join(json.dumps(row) + "\n" for row in table))

    def make(self, folder: Path) -> HuggingFace:
        return HuggingFace(str(folder))

    def change(self, folder: Path) -> None:
        path = folder / "corpus" / "corpus.jsonl"
        path.write_text(path.read_text().replace("old", "new"))


_JUDGED = [("q1", "d1", 1), ("q2", "d3", 2)]
