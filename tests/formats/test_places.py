"""What the writing of a collection refuses, with the file and the line of it."""

from pathlib import Path

from refused_collections import CORPUS, beir, refused

from hardneg.datasets.held_out import Withheld, WithheldCollection


def test_document_ids(tmp_path: Path) -> None:
    told = refused(beir(tmp_path, [*CORPUS, "d2"]), tmp_path)
    place, _, reason = told.partition(": ")
    assert place == f"{tmp_path}/corpus.jsonl:4"
    assert reason == "document id 'd2' occurs twice, as documents 2 and 4; document ids must be unique"


def test_judgements_are_told_with_their_place(tmp_path: Path) -> None:
    told = refused(beir(tmp_path, train="q1 0 d1 1\nq1 0 d2 1\nq1 0 d1 0\n"), tmp_path)
    assert told == f"{tmp_path}/qrels/train.tsv:3: query q1, document d1: judged both 1 and 0; keep one"


def test_what_is_withheld_has_places_too(tmp_path: Path) -> None:
    collection = WithheldCollection(beir(tmp_path, [*CORPUS, "d2"]), Withheld(unlabelled=0.5))
    assert refused(collection, tmp_path).startswith(f"{tmp_path}/corpus.jsonl:4: ")


def test_a_document_that_is_relevant_and_excluded(tmp_path: Path) -> None:
    collection = beir(tmp_path)
    (tmp_path / "excluded.tsv").write_text("q1\td2\nq1\td1\n")
    assert "excluded.tsv:2: document 'd1' of query 'q1' is relevant and excluded" in refused(collection, tmp_path)
