"""What is refused when a collection is stored is told with its file and line, as the check tells it."""

from pathlib import Path

import pytest

from hardneg.data.check import check
from hardneg.data.collection import write_collection
from hardneg.data.source_files import parts_of
from hardneg.datasets.beir import Beir
from hardneg.datasets.held_out import Withheld, WithheldCollection
from hardneg.datasets.msmarco import MsMarcoPassage
from hardneg.errors import DataError
from hardneg.progress import Silent
from hardneg.types import Collection

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


def test_document_ids(tmp_path: Path) -> None:
    told = refused(beir(tmp_path, [*CORPUS, "d2"]), tmp_path)
    corpus = tmp_path / "corpus.jsonl"
    places = f"{corpus}:4: the document id of {corpus}:2 stands here again"
    assert told == f"{places}; document id 'd2' occurs twice, as documents 2 and 4; document ids must be unique"


def test_judgements(tmp_path: Path) -> None:
    told = refused(beir(tmp_path, train="q1 0 d1 1\nq1 0 d2 1\nq1 0 d1 0\n"), tmp_path)
    places = f"{tmp_path}/qrels/train.tsv:3: relevance 0, but 1 at {tmp_path}/qrels/train.tsv:1"
    assert told == f"{places}; query q1, document d1: judged both 1 and 0; keep one"


def test_what_is_withheld_has_places_too(tmp_path: Path) -> None:
    collection = WithheldCollection(beir(tmp_path, [*CORPUS, "d2"]), Withheld(unlabelled=0.5))
    assert refused(collection, tmp_path).startswith(f"{tmp_path}/corpus.jsonl:4: ")


def test_a_query_with_two_texts(tmp_path: Path) -> None:
    (tmp_path / "collection.tsv").write_text("d1\tone\n")
    for split, text in {"train": "a", "dev": "b"}.items():
        (tmp_path / f"queries.{split}.tsv").write_text(f"q0\tsame\nq1\t{text}\n")
        (tmp_path / f"qrels.{split}.tsv").write_text("q0 0 d1 1\nq1 0 d1 1\n")
    told = refused(MsMarcoPassage(str(tmp_path)).load(), tmp_path)
    places = f"{tmp_path}/queries.dev.tsv:2: another text than at {tmp_path}/queries.train.tsv:2, under the same id"
    assert told == f"{places}; query id 'q1' of split dev: two splits give it different texts; make it unique"


@pytest.mark.parametrize("name", ["my split", "-x", "été"])
def test_names_of_splits(tmp_path: Path, name: str) -> None:
    collection = beir(tmp_path, test=name)
    rule = f"split {name!r}: a name has letters, digits, '.', '_' and '-', and begins with a letter or digit; rename it"
    assert refused(collection, tmp_path) == rule
    found = [problem for problem in check(parts_of(collection)) if problem.kind == "names of splits"]
    assert [str(problem) for problem in found] == [f"{tmp_path}/qrels/{name}.tsv: {rule}"]
