"""Tests of equivalence, on numbers that were computed by hand."""

from math import atan, pi, sqrt

import pytest

from hardneg.evaluation import known_margin
from hardneg.evaluation.metrics import averaged
from hardneg.evaluation.metrics_json import Measured, from_json, to_json
from hardneg.evaluation.significance import Comparison, Design, Verdict, compare, compare_all, tost, verdict
from hardneg.evaluation.two_level import compare_over_seeds
from hardneg.records.errors import UsageError


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
