import math
from math import atan, pi, sqrt

import numpy as np
import pytest
from hypothesis import given, strategies as st

from hardneg.evaluation import known_margin
from hardneg.evaluation.intervals import mean_interval
from hardneg.evaluation.metrics import averaged
from hardneg.evaluation.metrics_json import Measured, from_json, to_json
from hardneg.evaluation.significance import (
    Comparison,
    Design,
    Randomisation,
    Verdict,
    compare,
    compare_all,
    compare_over_seeds,
    holm,
    paired_t_test,
    randomisation_test,
    tost,
    verdict,
)
from hardneg.records import UsageError

DIFFERENCES = np.array([0.1, 0.2, 0.3, -0.1])


def test_t_test_by_hand():
    # mean 0.125, variance 0.0875 / 3; Student's distribution with 3 degrees of freedom has a closed form
    x = 0.125 / math.sqrt(0.0875 / 12) / math.sqrt(3)
    assert paired_t_test(DIFFERENCES) == pytest.approx(1 - 2 / math.pi * (x / (1 + x * x) + math.atan(x)))


def test_exact_randomisation_by_hand():
    # 0.2 and 0.3 of one sign, and not both 0.1 of the other: 6 of the 16 sign patterns reach 0.5
    assert randomisation_test(DIFFERENCES) == randomisation_test(np.append(DIFFERENCES, np.zeros(50))) == 6 / 16


def test_drawn_randomisation_is_seeded_and_near_the_exact_p():
    drawn = Randomisation(samples=15, seed=3)
    assert randomisation_test(DIFFERENCES, drawn) == randomisation_test(DIFFERENCES, drawn)
    values = np.linspace(-0.2, 0.5, 16)
    exact = randomisation_test(values, Randomisation(samples=1 << 16))
    near = randomisation_test(values, Randomisation(samples=(1 << 16) - 1))
    assert near == pytest.approx(exact, abs=0.005)
    assert randomisation_test(np.full(200, 0.5), Randomisation(samples=99)) == 1 / 100


def test_blocks_do_not_change_the_draws(monkeypatch):
    values = np.linspace(-0.2, 0.5, 30)
    whole = randomisation_test(values, Randomisation(samples=1000))
    monkeypatch.setattr("hardneg.evaluation.significance._BLOCK_VALUES", 800)
    assert randomisation_test(values, Randomisation(samples=1000)) == pytest.approx(whole, abs=0.05)
    assert randomisation_test(DIFFERENCES) == 6 / 16


@pytest.mark.parametrize("values", [np.zeros(0), np.zeros(5), np.array([0.4])])
def test_nothing_to_tell_is_p_one(values):
    assert paired_t_test(values) == 1.0
    assert randomisation_test(values) == 1.0


def test_equal_differences_are_as_likely_as_equal_signs():
    assert paired_t_test(np.full(2, 0.5)) == 0.5
    assert paired_t_test(np.full(4, -0.5)) == 0.125
    assert paired_t_test(np.array([0.6 - 0.3, 0.5 - 0.2])) == 0.5  # 0.3 and 0.3, but for rounding


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.6, 0.5]) == [1.0, 1.0]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_only_raises_and_keeps_the_order(p_values):
    corrected = holm(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, corrected, strict=True))
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [corrected[i] for i in order] == sorted(corrected)


@given(st.lists(st.floats(-1, 1), min_size=2, max_size=7))
def test_randomisation_is_two_sided(values):
    p = randomisation_test(np.array(values))
    assert 0 < p <= 1
    assert randomisation_test(-np.array(values)) == p


def test_interval_by_hand():
    interval = mean_interval(DIFFERENCES)
    assert interval is not None
    half = 3.182446 * math.sqrt(0.0875 / 12)
    assert (interval.low, interval.high) == pytest.approx((0.125 - half, 0.125 + half), abs=1e-6)
    assert mean_interval(np.array([0.3])) is None


SCORES = {
    "bm25": {"q1": 0.1, "q2": 0.2, "q3": 0.3, "q4": 0.4},
    "dense": {"q4": 0.3, "q1": 0.2, "q2": 0.4, "q3": 0.6},
    "same": {"q1": 0.1, "q2": 0.2, "q3": 0.3, "q4": 0.4},
}


def test_compare_pairs_by_query_id():
    dense, same = compare(SCORES, "ndcg@10", ["bm25"])
    assert (dense.system, dense.baseline, dense.metric, dense.n) == ("dense", "bm25", "ndcg@10", 4)
    assert dense.difference == pytest.approx(0.125)
    assert dense.t_p == pytest.approx(0.239443, abs=1e-6)
    assert (dense.randomisation_p, dense.randomisation_holm) == (0.375, 0.75)
    assert dense.t_holm == pytest.approx(2 * dense.t_p)
    assert (same.t_p, same.randomisation_p, same.t_holm, same.randomisation_holm) == (1, 1, 1, 1)
    assert not dense.significant()


def test_pairs():
    def pairs(baselines: list[str]) -> list[tuple[str, str]]:
        return [(c.system, c.baseline) for c in compare(SCORES, "m", baselines)]

    assert pairs([]) == [("dense", "bm25"), ("same", "bm25"), ("same", "dense")]
    assert pairs(["same", "bm25", "same"]) == [("bm25", "same"), ("dense", "same"), ("dense", "bm25")]
    assert compare({"alone": {"q1": 0.5}}, "m") == []


def test_what_cannot_be_compared():
    with pytest.raises(UsageError, match="baseline nobody is not among the systems; available: bm25, dense, same"):
        compare(SCORES, "m", ["nobody"])
    with pytest.raises(UsageError, match=r"b and a were scored on different queries \(2 and 1\)"):
        compare({"a": {"q1": 0.1}, "b": {"q1": 0.1, "q2": 0.1}}, "m")
    with pytest.raises(UsageError, match="a has no scores"):
        compare({"a": {}, "b": {}}, "m")


def test_each_metric_is_a_family():
    results = {name: {"ndcg": scores, "mrr": scores} for name, scores in SCORES.items()}
    comparisons = compare_all(results, ["bm25"])
    assert [(c.metric, c.system) for c in comparisons] == [
        ("ndcg", "dense"), ("ndcg", "same"), ("mrr", "dense"), ("mrr", "same"),
    ]  # fmt: skip
    assert comparisons[0].randomisation_holm == 0.75


@pytest.mark.parametrize(
    ("t_holm", "randomisation_holm", "expected"),
    [(0.004, 0.004, True), (0.004, 0.02, False), (0.02, 0.004, False), (0.01, 0.004, False), (0.004, 0.01, False)],
)
def test_a_difference_counts_where_both_tests_are_below_the_level(t_holm, randomisation_holm, expected):
    found = Comparison("a", "b", "m", 0.1, None, 9, 0.001, t_holm, 0.001, randomisation_holm)
    assert found.significant(0.01) == expected


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_sums_that_are_equal_but_for_rounding_are_as_far_from_zero(scale):
    """Signs of .3, .1, .1 and .1 give .6 twice, .4 six times, .2 six times and 0 twice: .2 or more in 14 of 16."""
    for differences in ([0.3, 0.1, -0.1, -0.1], [0.1, -0.3, 0.1, 0.3 - 0.2], [-0.1, 0.3, -0.1, 0.1]):
        values = np.array(differences) * scale
        expected = 14 / 16 if abs(values.sum()) > 0.1 * scale else 1.0
        assert randomisation_test(values) == expected


@pytest.mark.parametrize("difference", [0.5, -0.5])
def test_tost_by_hand(difference: float) -> None:
    """The distribution of t has a closed form with one and with two degrees of freedom; here t is (1.5 - .5) / 1."""
    assert tost(difference, 1.0, 1, 2, 1.5) == pytest.approx(1 / 2 - atan(1.0) / pi) == pytest.approx(0.25)
    assert tost(difference, 1.0, 2, 3, 1.5) == pytest.approx(1 / 2 - 1 / (2 * sqrt(3)))


def test_a_difference_as_large_as_the_margin_is_as_likely_as_not() -> None:
    assert tost(0.5, 1.0, 7, 8, 0.5) == 0.5
    assert tost(2.0, 1.0, 1, 2, 1.0) == pytest.approx(0.75)


def test_where_no_query_differs_p_is_the_chance_to_meet_none_that_does() -> None:
    """A mean difference of .25 of scores of at most 1 needs one query in four: three miss it with .75 ** 3."""
    assert tost(0.0, 0.0, 2, 3, 0.25) == 27 / 64
    assert tost(0.125, 1e-18, 2, 3, 0.25) == (7 / 8) ** 3
    assert tost(0.5, 1e-18, 2, 3, 0.25) == tost(0.0, 0.0, 0, 1, 0.25) == 1.0
    # the usual margin needs some 920 queries for p < .01
    assert tost(0.0, 0.0, 199, 200, 0.005) > 0.36 and tost(0.0, 0.0, 999, 1000, 0.005) < 0.01


def test_paired_queries_are_tested_for_equivalence() -> None:
    """Differences .1, .2, .3, -.1: mean .125 of variance .0875 / 12; t with three degrees has a closed form."""
    scores = {"b": dict.fromkeys("wxyz", 0.0), "a": {"w": 0.1, "x": 0.2, "y": 0.3, "z": -0.1}}
    (found,) = compare(scores, "m", design=Design(0.5))
    assert found.error == pytest.approx(sqrt(0.0875 / 12))
    x = (0.5 - 0.125) / found.error / sqrt(3)
    assert found.equivalence_p == pytest.approx(1 / 2 - (x / (1 + x * x) + atan(x)) / pi)
    assert found.equivalence_holm == found.equivalence_p


def test_each_kind_of_test_is_corrected_over_the_metrics_comparisons() -> None:
    scores = {name: dict(zip("wxyz", values, strict=True)) for name, values in {
        "base": (0.0, 0.0, 0.0, 0.0), "near": (0.1, -0.1, 0.1, -0.1), "far": (0.6, 0.5, 0.6, 0.5),
    }.items()}  # fmt: skip
    near, far = compare(scores, "m", ["base"], design=Design(0.5))
    assert near.equivalence_holm == pytest.approx(2 * near.equivalence_p)
    assert far.equivalence_p > 0.5 and far.equivalence_holm == far.equivalence_p


@pytest.mark.parametrize(
    ("holm", "equivalence_holm", "word"),
    [(0.004, 0.9, "difference"), (0.004, 0.004, "difference"), (0.9, 0.004, "equivalent"), (0.9, 0.9, "undecided")],
)
def test_a_test_has_one_of_three_words(holm: float, equivalence_holm: float, word: Verdict) -> None:
    found = Comparison("a", "b", "m", 0.1, None, 9, holm, holm, holm, holm, equivalence_holm=equivalence_holm)
    assert verdict(found, 0.01) == word


def of_seeds(table: list[list[float]]) -> dict[int, dict[str, dict[str, float]]]:
    return {seed: {"m": {f"q{i}": x for i, x in enumerate(row)}} for seed, row in enumerate(table, 1)}


def test_over_seeds_the_error_is_that_of_both_levels() -> None:
    """The tables of `test_two_level`: a difference of 2, a variance of 8, 64 / 34 degrees of freedom."""
    seeds = {"A": of_seeds([[0.0, 2.0], [2.0, 8.0]]), "B": of_seeds([[0.0, 0.0], [2.0, 2.0]])}
    results = {name: averaged([*scores.values()]) for name, scores in seeds.items()}
    (found,) = compare_over_seeds(results, seeds, ["B"], design=Design(3.0))
    assert found.equivalence_p == pytest.approx(tost(2.0, sqrt(8.0), 64 / 34, 2, 3.0))
    assert verdict(found, 0.01) == "undecided" and verdict(found, 0.5) == "equivalent"


def test_a_file_says_the_margin_and_the_words() -> None:
    results = {"a": {"m": {"q": 0.5, "r": 0.5}}, "b": {"m": {"q": 0.5, "r": 0.5}}}
    tests = compare_all(results, design=Design(0.02))
    measured = Measured(results, tests, significance_level=0.97, equivalence_margin=0.02)
    content = to_json(measured)
    assert content["equivalence_margin"] == 0.02
    assert [each["verdict"] for each in content["comparisons"]] == ["equivalent"]
    assert from_json(content) == measured


def test_a_margin_is_above_nothing() -> None:
    with pytest.raises(UsageError, match="equivalence margin 0: must be above 0"):
        known_margin(0.0)
