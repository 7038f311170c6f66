"""Miners that leave out candidates by their scores, or draw by them: SimANS, by the odds of each published form."""

from typing import Any

import numpy as np
import pytest

from hardneg.formats.runs import read_run, write_run
from hardneg.mining.thresholds import RULES, Denoised, MaxScore, PosMargin, PosPercent, SimAns, scores_of
from hardneg.records import Candidates, Negatives, PluginError, PluginSetting, RankedList
from hardneg.registry import configure, plugin_options
from tests.run_lists import ranked


def query(listed: int, scores: dict[str, float], positives: tuple[str, ...] = (), name: str = "q") -> Candidates:
    dense = ranked({f"d{rank}": float(1000 - rank) for rank in range(1, listed + 1)})
    return Candidates(name, positives, {"dense": dense, "scores": ranked(scores)}, [], frozenset({"d6"}))


def mine(miner: Any, asked: Candidates, seed: int = 0) -> Negatives:
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
    assert scores.dtype == np.float32


def ambiguous(name: str = "q", positives: tuple[str, ...] = ("d2",)) -> Candidates:
    ranking = RankedList(["d1", "d2", "d3", "d4"], np.array([4, 3, 2, 0], np.float32))
    return Candidates(name, positives, {"run": ranking}, ["d1", "d2", "d3", "d4"])


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
    found = miner.mine((ambiguous(f"q{number}") for number in range(3000)), seed=0)
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
    asked = ambiguous(positives=("d9",))
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
    plain = ambiguous()
    asked = Candidates("q", plain.positives, plain.hits, plain.doc_ids, frozenset({"d3"}))
    found = mine(SimAns(), asked)
    assert list(found.negatives) == ["d1", "d4"] and found.dropped == {"positive": 1, "duplicate": 1}
    assert list(mine(SimAns(exclude_copies=False), asked).negatives) == ["d1", "d3", "d4"]


def test_inherited_options_are_explained():
    told = {option["name"]: option["meaning"] for option in plugin_options(PosMargin)}
    assert told["margin"].startswith("minimum difference") and told["depth"].startswith("number of documents")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: Denoised(depth=0), "depth and count must be at least 1, not depth 0 and count 4"),
        (lambda: MaxScore(highest=float("inf")), "highest must be a finite number, not inf"),
        (
            lambda: SimAns(sharpness=-1.0),
            "sharpness must be at least 0 and finite, and shift must be finite, not -1.0 and 0.0",
        ),
        (lambda: SimAns(form="absolute", shift=1.0), "form absolute does not use shift; remove shift, or use form"),
        (lambda: PosPercent(share=1.5), "share must be above 0 and at most 1, not 1.5"),
        (lambda: configure("miners", PluginSetting("denoised", {"order": "best"})), "order: must be 'top'"),
        (lambda: configure("miners", PluginSetting("max-score")), "highest: "),
    ],
)
def test_options_that_make_no_sense(make, told):  # type: ignore[no-untyped-def]
    with pytest.raises(PluginError, match=told):
        make()
