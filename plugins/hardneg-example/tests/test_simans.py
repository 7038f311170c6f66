import numpy as np
import pytest
from hardneg_example.simans import SimAns, positive_score

from hardneg.testing import MinerTests
from hardneg.types import Candidates, RankedList


class TestSimAns(MinerTests):
    plugin = SimAns(count=5)


class TestAll(MinerTests):
    plugin = SimAns(count=500, sharpness=0.5, shift=-1.0)


def query(name: str = "q", positives: tuple[str, ...] = ("d2",)) -> Candidates:
    ranking = RankedList(["d1", "d2", "d3", "d4"], np.array([4, 3, 2, 0], np.float32))
    return Candidates(name, positives, {"run": ranking}, ["d1", "d2", "d3", "d4"])


def test_the_score_that_others_are_held_against() -> None:
    assert positive_score(query()) == 3
    assert positive_score(query(positives=("d1", "d3"))) == 3
    assert positive_score(query(positives=("d9",))) == 0


def test_odds_are_those_of_the_paper() -> None:
    scores = np.array([4, 2, 0], np.float32)
    assert SimAns(sharpness=0.5).log_odds(scores, 3).tolist() == [-0.5, -0.5, -4.5]
    assert SimAns(shift=-1).log_odds(scores, 3).tolist() == [-4, 0, -4]


def test_draws_follow_the_odds() -> None:
    miner = SimAns(count=1, sharpness=0.25)
    found = miner.mine((query(f"q{number}") for number in range(4000)), seed=0)
    names, counts = np.unique([item.negatives[0] for item in found], return_counts=True)
    odds = np.exp([-0.25, -0.25, -2.25])
    assert names.tolist() == ["d1", "d3", "d4"]
    assert counts / 4000 == pytest.approx(odds / odds.sum(), abs=0.03)


def test_options_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="count and depth"):
        SimAns(count=0)
