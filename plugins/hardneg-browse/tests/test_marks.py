"""Marks are judgements in a file that others may write too."""

import pytest
from hardneg_browse.sources import Marks
from nfs_locks import as_nfs

from hardneg.formats.qrels import read_qrels
from hardneg.records import DataError, UsageError


def test_marks_are_written_as_trec_has_them_and_taken_away_again(tmp_path):
    path = tmp_path / "new" / "marks.qrels"
    marks = Marks(path)
    assert marks.all() == [] and not path.exists()
    marks.set("q1", "d/1", True)
    marks.set("q2", "דג", True)
    assert path.read_text() == "q1 0 d/1 1\nq2 0 דג 1\n"
    assert marks.of("q1") == {"d/1"} and marks.of("q3") == frozenset()
    marks.set("q1", "d/1", False)
    marks.set("q1", "never", False)
    assert marks.all() == [("q2", "דג")] and read_qrels(path) == {"q2": {"דג": 1}}
    marks.set("q2", "דג", False)
    assert path.read_text() == "" and Marks(path).all() == []
    assert sorted(found.name for found in path.parent.iterdir()) == [".marks.qrels.lock", "marks.qrels"]


def test_what_stands_in_the_file_already_stays(tmp_path):
    path = tmp_path / "marks.qrels"
    path.write_text("q1 0 d1 2\nq1 0 d2 0\n")
    marks = Marks(path)
    path.write_text("q1 0 d1 2\nq1 0 d2 0\nq9 0 d9 1\n")  # another program adds a line
    marks.set("q1", "d1", True)
    marks.set("q1", "d2", True)
    assert path.read_text() == "q1 0 d1 2\nq1 0 d2 1\nq9 0 d9 1\n"
    assert ("q9", "d9") in marks.all()


def test_the_judgements_of_a_dataset_are_not_written_over(tmp_path):
    path = tmp_path / "train.tsv"
    path.write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\n")
    with pytest.raises(UsageError, match=r"train\.tsv: qrels in BEIR format"):
        Marks(path)
    assert path.read_text().startswith("query-id")


def test_a_file_that_holds_no_judgements_is_told_and_left_alone(tmp_path):
    path = tmp_path / "marks.qrels"
    path.write_text("dear diary\n")
    with pytest.raises(DataError, match=r"marks\.qrels:1: 2 columns"):
        Marks(path)
    path.write_text("q1 0 d1 1\n")
    marks = Marks(path)
    path.write_text("dear diary\n")
    with pytest.raises(DataError):
        marks.set("q1", "d2", True)
    assert path.read_text() == "dear diary\n"


def test_marks_are_written_on_a_network_file_system(tmp_path, monkeypatch):
    asked = as_nfs(monkeypatch)
    Marks(tmp_path / "marks.qrels").set("q1", "d1", True)
    assert len(asked) == 1 and (tmp_path / "marks.qrels").read_text() == "q1 0 d1 1\n"
