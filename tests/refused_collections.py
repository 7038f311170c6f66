"""A small folder in BEIR's form, and the words with which its writing is refused."""

from pathlib import Path

import pytest

from hardneg.datasets.beir import Beir
from hardneg.formats.collection import write_collection
from hardneg.records import Collection, DataError
from hardneg.runtime import Silent

CORPUS = ["d1", "d2", "d3"]


def beir(folder: Path, corpus: list[str] = CORPUS, train: str = "q1 0 d1 1\n", test: str = "test") -> Collection:
    (folder / "qrels").mkdir(parents=True)
    (folder / "corpus.jsonl").write_text("".join(f'{{"_id": "{name}", "text": "{name}"}}\n' for name in corpus))
    (folder / "queries.jsonl").write_text('{"_id": "q1", "text": "a"}\n{"_id": "q2", "text": "b"}\n')
    (folder / "qrels" / "train.tsv").write_text(train)
    (folder / "qrels" / f"{test}.tsv").write_text("q2 0 d2 1\n")
    return Beir(str(folder)).load()


def refused(collection: Collection, folder: Path) -> str:
    with pytest.raises(DataError) as caught:
        write_collection(collection, folder / "stored", Silent())
    return str(caught.value)
