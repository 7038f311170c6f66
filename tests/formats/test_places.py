"""What the writing of a collection refuses, with the file and the line of it."""

from pathlib import Path

from refused_collections import CORPUS, beir, refused

from hardneg.datasets.held_out import Withheld, WithheldCollection


def test_what_is_withheld_has_places_too(tmp_path: Path) -> None:
    collection = WithheldCollection(beir(tmp_path, [*CORPUS, "d2"]), Withheld(unlabelled=0.5))
    assert refused(collection, tmp_path).startswith(f"{tmp_path}/corpus.jsonl:4: ")


def test_a_document_that_is_relevant_and_excluded(tmp_path: Path) -> None:
    collection = beir(tmp_path)
    (tmp_path / "excluded.tsv").write_text("q1\td2\nq1\td1\n")
    assert "excluded.tsv:2: document 'd1' of query 'q1' is both relevant and excluded" in refused(collection, tmp_path)
