"""Miners that leave out candidates by their scores."""

import numpy as np
import pytest

from hardneg.formats.runs import read_run, write_run
from hardneg.mining.miners.selection import RULES, lowest, scores_of
from hardneg.mining.miners.thresholds import Denoised, MaxScore, PosMargin, PosPercent
from hardneg.records import Candidates, Negatives, PluginError, PluginSetting, RankedList
from hardneg.registry import configure, plugin_options
from hardneg.testing import MinerTests
from tests.run_lists import ranked


class TestDenoised(MinerTests):
    plugin = Denoised(below=0.5, depth=20, count=10)
    runs = ("dense", "scores")


class TestDenoisedAtRandom(MinerTests):
    plugin = Denoised(below=0.5, depth=20, count=10, order="random", fill="random")
    runs = ("dense", "scores")


class TestMaxScoreOfTheListItself(MinerTests):
    plugin = MaxScore(highest=0.5, order="scored", fill="random")


class TestPosMargin(MinerTests):
    plugin = PosMargin(margin=0.5, depth=30)
    runs = ("dense", "scores")


class TestPosPercent(MinerTests):
    plugin = PosPercent(without_positive="keep")


def query(listed: int, scores: dict[str, float], positives: tuple[str, ...] = (), name: str = "q") -> Candidates:
    dense = ranked({f"d{rank}": float(1000 - rank) for rank in range(1, listed + 1)})
    return Candidates(name, positives, {"dense": dense, "scores": ranked(scores)}, [], frozenset({"d6"}))


def mine(miner: Denoised | MaxScore | PosMargin | PosPercent, asked: Candidates, seed: int = 0) -> Negatives:
    (found,) = miner.mine([asked], seed=seed)
    return found


NOISY = {"d1": 0.95, "d2": 0.1, "d3": 0.0999, "d4": 0.05, "d5": 0.9, "d6": 0.01, "d7": 0.02, "d9": 0.03, "d10": 0.04}


def test_the_first_four_strictly_below_a_tenth_are_kept_in_rank_order():
    found = mine(Denoised(), query(10, NOISY, ("d1",)))
    assert list(found.negatives) == ["d3", "d4", "d7", "d9"]
    assert found.scores.tolist() == [997, 996, 993, 991]
    assert found.dropped == {"positive": 1, "score": 2, "duplicate": 1, "unscored": 1}


def test_a_stored_run_has_no_two_scores_at_the_threshold(tmp_path):
    """The second of two at a tenth is written a step lower, and so kept."""
    write_run(tmp_path / "run.trec.gz", [("q", RankedList(["a", "b", "c"], np.array([0.5, 0.1, 0.1], np.float32)))])
    stored = read_run(tmp_path / "run.trec.gz")
    kept = RULES["denoised"](0.1)(stored["q"].scores, np.array([np.nan], np.float32))
    assert kept.tolist() == [False, False, True]


def test_what_was_dropped_is_told_with_its_rank_its_reason_and_its_score():
    drops = mine(Denoised(), query(60, NOISY, ("d1",))).drops
    assert drops is not None and drops.candidates == 50
    assert list(drops.doc_ids[:5]) == ["d1", "d2", "d5", "d6", "d8"]
    assert drops.ranks[:5].tolist() == [1, 2, 5, 6, 8] and drops.ranks.dtype == np.int32
    assert list(drops.reasons[:5]) == ["positive", "score", "score", "duplicate", "unscored"]
    np.testing.assert_array_equal(drops.scores[:5], np.array([0.95, 0.1, 0.9, 0.01, np.nan], np.float32))
    assert drops.chosen.tolist() == [3, 4, 7, 9]
    assert len(drops.doc_ids) == 50 - 5


def test_what_is_missing_is_drawn_from_behind_the_depth_whatever_its_score():
    asked = query(12, {**NOISY, "d12": 0.99}, ("d1", "d11"))
    assert list(mine(Denoised(depth=4), asked).negatives) == ["d3", "d4"]
    drawn = {tuple(mine(Denoised(depth=4, fill="random"), asked, seed).negatives) for seed in range(50)}
    assert {found[:2] for found in drawn} == {("d3", "d4")} and len(drawn) > 20
    assert {doc_id for found in drawn for doc_id in found[2:]} == {"d5", "d7", "d8", "d9", "d10", "d12"}
    more = mine(Denoised(depth=4, count=40, fill="random"), asked)
    assert len(more.negatives) == 8 and more.dropped == {"positive": 2, "score": 1, "duplicate": 1}
    assert more.drops is not None and more.drops.candidates == 4 and max(more.drops.chosen) == 12


def test_candidates_may_be_drawn_or_taken_by_their_score():
    asked = query(10, NOISY, ("d1",))
    kept = {"d3", "d4", "d7", "d9", "d10"}
    assert list(mine(Denoised(order="scored"), asked).negatives) == ["d3", "d4", "d10", "d9"]
    drawn = [mine(Denoised(order="random", count=2), asked, seed).negatives for seed in range(60)]
    assert {doc_id for found in drawn for doc_id in found} == kept
    assert len({tuple(found) for found in drawn}) > 12


def test_the_lists_own_scores_decide_where_no_run_is_labelled_scores():
    asked = Candidates("q", [], {"dense": ranked({"a": 0.8, "b": 0.5, "c": 0.2})}, [])
    assert list(mine(MaxScore(highest=0.5), asked).negatives) == ["b", "c"]
    assert list(mine(Denoised(below=0.5), asked).negatives) == ["c"]


def test_positives_are_compared_by_the_lowest_of_them():
    scores = {"p1": 0.9, "p2": 0.5, "d1": 0.46, "d2": 0.451, "d3": 0.45, "d4": 0.44}
    asked = query(4, scores, ("p1", "p2"))
    assert list(mine(PosMargin(margin=0.05), asked).negatives) == ["d3", "d4"]
    assert list(mine(PosPercent(share=0.9), asked).negatives) == ["d3", "d4"]
    assert mine(PosMargin(margin=0.05), asked).noted == ()


def test_a_share_of_a_negative_score_is_below_it():
    asked = query(3, {"p": -1.0, "d1": -0.96, "d2": -1.04, "d3": -1.06}, ("p",))
    assert list(mine(PosPercent(share=0.95), asked).negatives) == ["d3"]


def test_a_query_whose_positives_have_no_score_is_told_and_dropped_or_kept():
    asked = query(3, {"d1": 0.9, "d2": 0.1}, ("p",))
    for miner in (PosMargin(), PosPercent()):
        found = mine(miner, asked)
        assert list(found.negatives) == [] and found.noted == ("no scored positive",)
        assert found.dropped == {"no scored positive": 2, "unscored": 1}
    kept = mine(PosMargin(without_positive="keep"), asked)
    assert list(kept.negatives) == ["d1", "d2"] and kept.noted == ("no scored positive",)
    assert kept.dropped == {"unscored": 1}
    assert mine(Denoised(), asked).noted == ()


def test_ids_are_compared_whole():
    dense = ranked({"12": 3.0, "3124": 2.0})
    found = mine(Denoised(), Candidates("q", ["3124"], {"dense": dense, "scores": ranked({"12": 0.0})}, []))
    assert list(found.negatives) == ["12"]


def test_rules_are_named_as_the_miners_are():
    scores, positive = np.array([0.4, 0.5, 0.6, np.nan], np.float32), np.array([0.6], np.float32)
    kept = {name: rule(0.5)(scores, positive).tolist() for name, rule in RULES.items()}
    none = [False] * 4
    own = {"denoised": [True, False, False, False], "max-score": [True, True, False, False]}
    assert kept == {**own, "pos-margin": none, "pos-percent": none}
    for name in RULES:
        options = {"highest": 0.5} if name == "max-score" else {}
        assert configure("miners", PluginSetting(name, options)).count == 4
    assert RULES["pos-margin"](0.1)(scores, positive).tolist() == [True, True, False, False]


def test_scores_that_are_not_there_are_nan():
    scores = scores_of(["a", "x", "b"], ranked({"b": 2.0, "a": 1.5}))
    np.testing.assert_array_equal(scores, np.array([1.5, np.nan, 2.0], np.float32))
    assert scores.dtype == np.float32 and lowest(scores) == 1.5
    assert np.isnan(lowest(np.empty(0, np.float32)))


def test_inherited_options_are_explained():
    told = {option["name"]: option["meaning"] for option in plugin_options(PosMargin)}
    assert told["margin"].startswith("keep documents") and told["depth"].startswith("how many documents")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Denoised(depth=0), "depth and count must be 1 or above, not depth 0 and count 4"),
        (lambda: Denoised(below=float("nan")), "below must be a number, not nan"),
        (lambda: MaxScore(highest=float("inf")), "highest must be a number, not inf"),
        (lambda: PosMargin(margin=float("inf")), "margin must be a number"),
        (lambda: PosPercent(share=1.5), "share must be above 0 and at most 1, not 1.5"),
        (lambda: configure("miners", PluginSetting("denoised", {"order": "best"})), "order: must be 'top'"),
        (lambda: configure("miners", PluginSetting("max-score")), "highest: "),
    ],
)
def test_options_that_make_no_sense(make, told):  # type: ignore[no-untyped-def]
    with pytest.raises(PluginError, match=told):
        make()
