import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hardneg.analysis.score_tails import score_tails


def scores(*lists):
    return [np.array(each, np.float32) for each in lists]


def test_a_score_is_its_share_of_the_way_from_the_last_to_the_best():
    (found,) = score_tails(scores([10, 6, 4, 2], [5, 5, 1, 1], [3, 2], [1, 1, 1, 1]), depths=[4, 10])
    assert (found["depth"], found["queries"]) == (4, 2)
    assert found["left_out"] == {"lists that are shorter": 1, "equal scores": 1}
    assert found["ranks"] == [1, 2, 3, 4]
    assert found["mean"] == [1.0, 0.75, 0.125, 0.0]
    assert found["median"] == [1.0, 0.75, 0.125, 0.0]
    assert found["low"] == pytest.approx([1.0, 0.55, 0.025, 0.0])
    assert found["high"] == pytest.approx([1.0, 0.95, 0.225, 0.0])
    assert found["score"] == [7.5, 5.5, 2.5, 1.5]
    assert found["half"] == 3


def test_long_lists_are_told_at_some_ranks_with_the_first_and_the_last():
    (ten, hundred) = score_tails(scores(np.arange(300, 0, -1)), depths=[10, 100, 1000])
    assert ten["ranks"] == list(range(1, 11))
    assert len(hundred["ranks"]) < 60 and hundred["ranks"][-1] == 100 and hundred["mean"][-1] == 0.0
    assert hundred["half"] == 51


@given(st.floats(0.5, 4), st.integers(-8, 8))
def test_neither_scale_nor_origin_matters(scale, shift):
    lists = np.array([[9.0, 4.0, 3.0, 0.0], [7.0, 6.0, 1.0, 0.0]])
    one, other = (score_tails(scores(*each), depths=[4])[0] for each in (lists, lists * scale + shift))
    assert one["mean"] == pytest.approx(other["mean"], abs=1e-5)
