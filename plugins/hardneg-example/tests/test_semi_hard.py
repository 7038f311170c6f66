import numpy as np
import pytest
from hardneg_example.semi_hard import SemiHard

from hardneg.records import Candidates, RankedList
from hardneg.testing import MinerTests


class TestSemiHard(MinerTests):
    plugin = SemiHard(margin=1.5)


def test_what_scores_below_the_best_positive_within_the_margin() -> None:
    ranking = RankedList(["d1", "p1", "d2", "p2", "d3", "d4"], np.array([9, 8, 7.5, 7, 6, 5.5], np.float32))
    asked = Candidates("q", ["p1", "p2"], {"run": ranking}, [])
    (found,) = SemiHard(margin=2).mine([asked], seed=0)
    assert list(found.negatives) == ["d2", "d3"]
    assert found.scores.tolist() == [7.5, 6] and found.dropped == {"known": 2}
    (one,) = SemiHard(margin=2, count=1).mine([asked], seed=0)
    assert list(one.negatives) == ["d2"]


def test_without_a_positive_in_the_list_there_are_none() -> None:
    ranking = RankedList(["d1"], np.array([1], np.float32))
    (found,) = SemiHard().mine([Candidates("q", ["p"], {"run": ranking}, [])], seed=0)
    assert list(found.negatives) == [] and found.scores.shape == (0,)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="margin above 0"):
        SemiHard(margin=0)
