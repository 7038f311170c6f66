"""SimANS on four documents: the odds of each published form, and that draws follow them."""

import numpy as np
import pytest

from hardneg.mining.miners.simans import SimAns
from hardneg.records import Candidates, Negatives, PluginError, RankedList
from hardneg.testing import MinerTests


class TestSimAns(MinerTests):
    plugin = SimAns(count=5)


class TestAllOfThem(MinerTests):
    plugin = SimAns(count=500, shift=-1.0, positive="mean", without_positive="drop")


def query(name: str = "q", positives: tuple[str, ...] = ("d2",)) -> Candidates:
    ranking = RankedList(["d1", "d2", "d3", "d4"], np.array([4, 3, 2, 0], np.float32))
    return Candidates(name, positives, {"run": ranking}, ["d1", "d2", "d3", "d4"])


def mine(miner: SimAns, asked: Candidates, seed: int = 0) -> Negatives:
    (found,) = miner.mine([asked], seed=seed)
    return found


@pytest.mark.parametrize(
    ("form", "sharpness", "shift", "log_odds"),
    [
        ("paper", 0.5, 0.0, [-0.5, -0.5, -4.5]),
        ("paper", 1.0, -1.0, [-4, 0, -4]),
        ("paper", 0.5, 1.0, [0, -2, -8]),
        ("unshifted", 2.0, 0.0, [-2, -2, -18]),
        ("absolute", 3.0, 0.0, [-3, -3, -9]),
        ("opposite", 0.5, 1.0, [-2, 0, -2]),
    ],
)
def test_odds_are_those_of_the_published_forms(form, sharpness, shift, log_odds) -> None:  # type: ignore[no-untyped-def]
    """Scores 4, 2 and 0 beside a positive of 3 are +1, -1 and -3 away."""
    miner = SimAns(form=form, sharpness=sharpness, shift=shift)
    assert miner.log_odds(np.array([4, 2, 0], np.float32), 3.0).tolist() == log_odds


@pytest.mark.parametrize(("form", "log_odds"), [("paper", [-0.25, -0.25, -2.25]), ("absolute", [-0.25, -0.25, -0.75])])
def test_draws_follow_the_odds(form, log_odds) -> None:  # type: ignore[no-untyped-def]
    miner = SimAns(count=1, sharpness=0.25, form=form)
    found = miner.mine((query(f"q{number}") for number in range(3000)), seed=0)
    names, counts = np.unique([item.negatives[0] for item in found], return_counts=True)
    odds = np.exp(log_odds)
    assert names.tolist() == ["d1", "d3", "d4"]
    assert counts / 3000 == pytest.approx(odds / odds.sum(), abs=0.03)


def test_one_of_several_positives_is_drawn_or_their_mean_or_the_lowest() -> None:
    """Scores are +-10 to 1 sure: whoever is nearest to the positive is drawn."""
    ranking = RankedList(["p1", "d1", "d2", "p2", "d3"], np.array([10, 9, 5, 1, 0], np.float32))
    asked = Candidates("q", ["p1", "p2", "p3"], {"run": ranking}, [])
    sure = {"count": 1, "sharpness": 100.0}
    assert list(mine(SimAns(positive="lowest", **sure), asked).negatives) == ["d3"]
    assert list(mine(SimAns(positive="mean", **sure), asked).negatives) == ["d2"]
    drawn = [mine(SimAns(**sure), asked, seed).negatives[0] for seed in range(60)]
    assert {*drawn} == {"d1", "d3"} and 15 < drawn.count("d1") < 45


def test_without_a_scored_positive_the_lowest_ranks_are_taken_or_nothing_is() -> None:
    asked = query(positives=("d9",))
    found = mine(SimAns(count=2), asked)
    assert list(found.negatives) == ["d3", "d4"] and found.scores.tolist() == [2, 0]
    assert found.noted == ("no scored positive",) and found.dropped == {}
    dropped = mine(SimAns(count=2, without_positive="drop"), asked)
    assert list(dropped.negatives) == [] and dropped.dropped == {"no scored positive": 4}


def test_a_positive_behind_the_depth_still_has_its_score() -> None:
    ranking = RankedList(["d1", "d2", "d3", "p"], np.array([9, 5, 1, 0.9], np.float32))
    asked = Candidates("q", ["p"], {"run": ranking}, [])
    assert list(mine(SimAns(count=1, depth=3, sharpness=50), asked).negatives) == ["d3"]


def test_copies_are_no_negatives_and_are_counted() -> None:
    plain = query()
    asked = Candidates("q", plain.positives, plain.hits, plain.doc_ids, frozenset({"d3"}))
    found = mine(SimAns(), asked)
    assert list(found.negatives) == ["d1", "d4"] and found.dropped == {"positive": 1, "duplicate": 1}
    assert list(mine(SimAns(exclude_copies=False), asked).negatives) == ["d1", "d3", "d4"]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"count": 0}, "count and depth must be 1 or above, not count 0 and depth 200"),
        ({"sharpness": -1.0}, "sharpness must be a number of 0 or above and shift one, not -1.0 and 0.0"),
        ({"shift": float("nan")}, "sharpness must be a number"),
        ({"form": "absolute", "shift": 1.0}, "form absolute has no shift: leave shift out, or take form paper"),
    ],
)
def test_options_that_make_no_sense(options, told) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PluginError, match=told):
        SimAns(**options)
