"""Answers beside the queries of a stored collection."""

from pathlib import Path

from hardneg.data.answers import read_answers, write_answers
from hardneg.data.collection import StoredCollection, write_collection
from hardneg.datasets.beir import Beir
from hardneg.progress import Silent
from hardneg.types import Answers


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "answers" / "test.jsonl"
    assert write_answers(path, [Answers("q1", ())]) == 0 and not path.parent.exists()
    assert read_answers(path) == {}
    given = [Answers("q1", ("Röntgen", "W. Röntgen")), Answers("q2", ()), Answers("q3", ("1901",))]
    assert write_answers(path, given) == 2
    assert read_answers(path) == {"q1": ("Röntgen", "W. Röntgen"), "q3": ("1901",)}


def test_a_beir_folder_keeps_them_by_split(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "qrels").mkdir(parents=True)
    (source / "corpus.jsonl").write_text('{"_id": "d", "text": "river"}\n')
    plain = '{"_id": "q1", "text": "water"}\n{"_id": "q2", "text": "stone"}\n'
    (source / "queries.jsonl").write_text(plain)
    for split, query_id in (("train", "q1"), ("test", "q2")):
        (source / "qrels" / f"{split}.tsv").write_text(f"{query_id} 0 d 1\n")
    loader, before = Beir(str(source)), Beir(str(source)).fingerprint()
    counts = write_collection(loader.load(), tmp_path / "plain", Silent())
    assert not (tmp_path / "plain" / "answers").exists() and "with_answers" not in counts["splits"]["test"]
    (source / "queries.jsonl").write_text(plain.replace('"water"', '"water", "answers": ["a", "b"]'))
    assert loader.fingerprint() != before
    counts = write_collection(loader.load(), tmp_path / "stored", Silent())
    assert counts["splits"]["train"]["with_answers"] == 1 and "with_answers" not in counts["splits"]["test"]
    stored = StoredCollection.open(tmp_path / "stored")
    assert stored.answers("train") == {"q1": ("a", "b")} and stored.answers("test") == {}
