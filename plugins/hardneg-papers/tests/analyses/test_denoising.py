import numpy as np
import pytest
from hardneg_papers.analyses.filters import Denoising, examples, shares

from hardneg.analysis.inputs import Files
from hardneg.formats.negatives import recorded, write_negatives
from hardneg.records import ArtifactError, Drops, Negatives

TABLES = Denoising.model_construct()


def query(name, candidates, dropped, negatives=(), chosen=()):
    """A query; dropped: (rank, reason, score)."""
    ranks, reasons, scores = zip(*dropped, strict=True) if dropped else ((), (), ())
    names = [f"{name}-{rank}" for rank in ranks]
    rows = [np.array(values, kind) for values, kind in ((ranks, "i4"), (scores, "f4"), (chosen, "i4"))]
    drops = Drops(candidates, names, rows[0], reasons, rows[1], rows[2])
    return Negatives(name, [f"{name}-p"], list(negatives), np.zeros(len(negatives), np.float32), {}, drops)


MINED = [
    query("q1", 3, [(1, "positive", 0.9), (2, "score", 0.8)], ["n1"], [3]),
    query("q2", 3, [(1, "score", 0.7), (2, "score", 0.99), (3, "unscored", np.nan)], ["n2", "n3"], [9, 8]),
    query("q3", 1, []),
    query("q4", 2, [(1, "score", 0.999), (2, "duplicate", 0.2)]),
]


@pytest.fixture
def files(tmp_path):
    write_negatives(tmp_path / "negatives.arrow", recorded(MINED, tmp_path / "dropped.arrow"))
    return tmp_path / "dropped.arrow", tmp_path / "negatives.arrow"


def test_the_share_at_a_rank_is_of_what_is_neither_a_positive_nor_a_copy(files):
    found = shares(files[0])
    assert found["queries"] == 4 and found["candidates"] == [4, 3, 2]
    scored = {"positive": [1, 0, 0], "score": [2, 2, 0]}
    assert found["dropped"] == {**scored, "unscored": [0, 0, 1], "duplicate": [0, 1, 0]}
    assert found["filtered"] == [2 / 3, 1, 0]


def test_nothing_in_question_is_no_share(tmp_path):
    write_negatives(tmp_path / "n.arrow", recorded([query("q", 1, [(1, "positive", 1)])], tmp_path / "d.arrow"))
    assert shares(tmp_path / "d.arrow")["filtered"] == [None]


def test_counts_are_those_of_all_batches(tmp_path):
    many = [query(f"q{number}", 2, [(1 + number % 2, "score", 0.5)]) for number in range(2501)]
    write_negatives(tmp_path / "n.arrow", recorded(many, tmp_path / "d.arrow"))
    found = shares(tmp_path / "d.arrow")
    assert found["candidates"] == [2501, 2501] and found["dropped"]["score"] == [1251, 1250]
    assert [case["query_id"] for case in examples(tmp_path / "d.arrow", tmp_path / "n.arrow", 3)] == []


def test_examples_are_of_queries_that_kept_something_best_first(files):
    second, first = examples(*files, 5)
    assert second["dropped"] == {"doc_id": "q2-2", "rank": 2, "score": pytest.approx(0.99)}
    assert second["kept"] == {"doc_id": "n2", "rank": 9} and second["positive"] == {"doc_id": "q2-p"}
    assert (first["query_id"], first["dropped"]["doc_id"], first["kept"]) == ("q1", "q1-2", {"doc_id": "n1", "rank": 3})
    assert examples(*files, 1) == [second]


def test_examples_have_the_texts_that_are_known(files):
    class Texts(Files):
        def queries(self, split):
            return {"q2": "how many"}

        def texts(self, doc_ids):
            assert doc_ids == ["q2-p", "q2-2", "n2"]
            return {"q2-2": "x" * 400}

    asked = Denoising(negatives={"CE": "n"}, examples=1)
    found = asked.measure(Texts({"negatives.CE": str(files[0])}))
    (row,) = TABLES.tables(found)[1].rows
    assert row == ["CE", "q2 how many", "q2-p", "0.99", f"rank 2 q2-2 {'x' * 120}…", "rank 9 n2"]
    assert found["examples"][0]["dropped"]["text"] == "x" * 300


def test_files_of_two_minings_are_refused(files, tmp_path):
    write_negatives(tmp_path / "other.arrow", MINED[:2])
    with pytest.raises(ArtifactError, match=r"is not of the queries of .*give two files of one mining"):
        examples(files[0], tmp_path / "other.arrow", 5)


def test_ranks_are_told_in_bands(files):
    table = TABLES.table({"filters": {"CE": shares(files[0])}})
    assert table.columns[4:] == ("duplicate", "positive", "score", "unscored")
    assert table.rows == [
        ["CE", "1", "66.7%", "4", "0", "1", "2", "0"],
        ["CE", "2", "100.0%", "3", "1", "0", "2", "0"],
        ["CE", "3", "0.0%", "2", "0", "0", "0", "1"],
        ["CE", "1–3", "57.1%", "9", "1", "1", "4", "1"],
    ]
    long = {"candidates": [1] * 12, "dropped": {}}
    assert [row[1] for row in TABLES.table({"filters": {"": long}}).rows] == ["1", "2", "3–5", "6–10", "11–12", "1–12"]
    assert TABLES.table({"filters": {"": {"candidates": [], "dropped": {}}}}).rows == []
