import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hardneg.analysis.overlap import negatives_overlap, run_overlap
from hardneg.formats.negatives import read_negatives, write_negatives
from hardneg.records import Negatives


def mined(path, *rows):
    """A file of (query id, positives, negatives)."""
    write_negatives(path, [Negatives(*row, np.zeros(len(row[2]), np.float32)) for row in rows])
    return read_negatives(path)


def test_the_overlap_of_two_runs_is_the_share_of_the_first_ones_top():
    ours = {"q1": ["a", "b", "c", "d"], "q2": ["a"], "q3": [], "q4": ["a"]}
    theirs = {"q1": ["c", "a", "x", "b"], "q2": ["b", "a"], "q3": ["a"]}
    at_2 = run_overlap(ours, theirs, 2)
    assert at_2.shares == {"q1": 0.5, "q2": 1.0}
    assert at_2.mean == 0.75
    assert at_2.left_out == {"queries that one run lacks": 2}
    assert run_overlap(ours, theirs, 4).shares["q1"] == 0.75


def test_negatives_met_in_testing_are_the_runs_best_that_are_not_relevant(tmp_path):
    run = [("q1", ["p", "n1", "r", "n2", "n3"]), ("q2", ["n1"]), ("q0", ["n1"])]
    rows = [("q3", [], ["n1"]), ("q2", [], []), ("q1", ["p"], ["n1", "n2", "n3", "far"])]
    negatives = mined(tmp_path / "negatives.arrow", *rows)
    found = negatives_overlap(negatives, run, {"q1": ["r"]}, depth=2)
    assert found.shares == {"q1": 0.5}
    assert found.left_out == {"queries without negatives": 1, "queries that the run lacks": 1}
    assert negatives_overlap(negatives, run, depth=2).shares == {"q1": 0.25}
    assert negatives_overlap(negatives, []).mean is None


@given(st.lists(st.integers(0, 9), unique=True, min_size=1), st.integers(1, 12))
def test_a_run_overlaps_with_itself(numbers, depth):
    lists = {"q": [str(number) for number in numbers]}
    assert run_overlap(lists, lists, depth).mean == 1.0
