import numpy as np
import pytest
from hardneg_papers.analyses.scores import ScoreTails, score_tails
from hypothesis import given
from hypothesis import strategies as st

from hardneg.records import RankedList
from tests.analysis.in_memory import Memory


def scores(*lists, **named):
    named |= {str(number): each for number, each in enumerate(lists)}
    arrays = {name: np.array(each, np.float32) for name, each in named.items()}
    return {name: RankedList([f"d{i}" for i in range(len(each))], each) for name, each in arrays.items()}


def test_a_score_is_its_share_of_the_way_from_the_last_to_the_best():
    (found,) = score_tails(scores([10, 6, 4, 2], [5, 5, 1, 1], [3, 2], [1, 1, 1, 1]), depths=[4, 10])
    assert (found["depth"], found["queries"]) == (4, 2)
    assert found["left_out"] == {"lists that are shorter": 1, "equal scores": 1}
    assert found["ranks"] == [1, 2, 3, 4]
    assert found["mean"] == [1.0, 0.75, 0.125, 0.0]
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


def test_single_queries_have_curves_of_their_own(tmp_path):
    ours = scores(a=[10, 6, 4, 2], b=[3, 2], c=[1, 1, 1, 1], d=[4, 1, 1, 0])
    (tail,) = score_tails(ours, [4], ["a", "b", "c"])
    assert tail["single"] == {"a": [1.0, 0.5, 0.25, 0.0]} and tail["queries"] == 2
    assert "single" not in score_tails(ours, [4])[0]
    ScoreTails.model_construct().draw({"ours": [tail], "theirs": score_tails(ours, [4])}, [tmp_path / "s.svg"])
    assert (tmp_path / "s.svg").exists()


def test_single_queries_are_drawn_from_those_of_all_runs():
    runs = {"ours": scores(a=[2, 1], b=[2, 1], c=[2, 1]), "theirs": scores(c=[2, 1], b=[2, 1], z=[2, 1])}

    def single(count, runs=runs):
        asked = ScoreTails(runs={label: label for label in runs}, depths=(2,), single=count)
        return list(asked.measure(Memory(asked, runs))["ours"][0].get("single", {}))

    assert sorted(single(5)) == ["b", "c"] and single(0) == []
    assert single(1) == single(1, dict(reversed(runs.items())))
