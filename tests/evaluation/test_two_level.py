"""Tests over queries and seeds, on numbers that were computed by hand."""

from math import atan, inf, pi, sqrt

import numpy as np
import pytest
from scipy import stats

from hardneg.evaluation.intervals import (
    Component,
    Resampling,
    bootstrap_p,
    percentile_interval,
    query_draws,
    seed_weights,
)
from hardneg.evaluation.metrics import averaged
from hardneg.evaluation.metrics_json import Measured, from_json, to_json
from hardneg.evaluation.significance import holm
from hardneg.evaluation.two_level import compare_over_seeds, spread, spread_over_collections
from hardneg.records.errors import UsageError

A = np.array([[0.0, 2.0], [2.0, 8.0]])  # seeds by queries; means of seeds 1 and 5, of queries 1 and 5
B = np.array([[0.0, 0.0], [2.0, 2.0]])  # means of seeds 0 and 2, of queries 1 and 1


def test_the_components_of_two_systems_whose_seeds_are_their_own():
    """Differences by query 0 and 4, so 8 / 2 = 4; seeds 8 / 2 and 2 / 2; left of A 1, -1, -1, 1, of B none."""
    found = spread([A, B])
    assert found.mean == 2.0
    assert found.query == Component(4.0, 1)
    assert found.seeds == (Component(4.0, 1), Component(1.0, 1))
    assert found.rest == (Component(1.0, 1), Component(0.0, 1))
    assert found.variance == 8.0
    assert found.freedom == pytest.approx(8.0**2 / (4**2 + 4**2 + 1**2 + 1**2))


def test_the_square_of_t_is_quasi_f():
    """MS(system) 4 * 2 ** 2 / 2 = 8, MS(seeds) 10, MS(system x query) 8, MS(rest) 2: F = 8 / (10 + 8 - 2)."""
    found = spread([A, B])
    assert found.mean**2 / found.variance == pytest.approx(8 / (10 + 8 - 2))


def test_differences_seed_by_seed_are_one_table():
    """[[0, 2], [0, 6]]: queries 0 and 4, seeds 1 and 3, and what is left 1, -1, -1, 1."""
    found = spread([A - B])
    assert (found.query, found.seeds, found.rest) == (Component(4.0, 1), (Component(1.0, 1),), (Component(1.0, 1),))
    assert found.variance == 4.0


def test_one_degree_of_freedom_has_a_p_in_closed_form():
    """Queries that are all alike: t = 1 / 1 with one degree of freedom."""
    found = spread([B])
    assert (found.mean, found.variance, found.freedom) == (1.0, 1.0, 1.0)
    assert found.p == pytest.approx(1 - 2 / pi * atan(1.0)) == pytest.approx(0.5)
    assert found.interval is not None and found.interval.high == pytest.approx(1 + 12.7062, abs=1e-3)


def test_the_variance_is_no_less_than_that_of_queries_alone():
    """Seeds of equal means on unlike queries: nothing is left but what both parts contain."""
    found = spread([np.array([[0.0, 2.0, 4.0], [2.0, 0.0, 4.0]])])
    assert found.seed_variance == 0.0 and found.rest[0].variance > 0.0
    assert found.variance == found.query.variance == pytest.approx(np.var([1.0, 1.0, 4.0], ddof=1) / 3)


def test_a_model_as_it_is_has_no_part_of_seeds():
    found = spread([A, B[:1]])
    assert found.seeds == (Component(4.0, 1),) and found.rest == (Component(1.0, 1),)
    alone = spread([A[:1], B[:1]])
    assert alone.seeds == () and alone.seed_p == 0.0
    assert alone.p == pytest.approx(stats.ttest_rel(A[0], B[0]).pvalue)


def test_seeds_alone_are_welchs_test():
    found = spread([A, B])
    assert found.seed_p == pytest.approx(stats.ttest_ind([1.0, 5.0], [0.0, 2.0], equal_var=False).pvalue)


def test_equal_tables_differ_in_nothing():
    assert spread([np.ones((3, 4)), np.ones((3, 4))]).p == 1.0
    assert spread([np.ones((3, 4)), np.zeros((3, 4))]).p == 0.0
    assert spread([np.ones((3, 1)), np.zeros((3, 1))]).p == 1.0 and spread([np.ones((3, 1))]).interval is None
    assert spread([np.ones((3, 4))]).freedom < inf


def test_draws_of_queries_are_means_over_as_many_queries_for_all_tables():
    tables = {"a": A, "b": 2 * A}
    draws = query_draws(tables, Resampling(2_000, seed=1))
    assert {tuple(row) for row in draws["a"]} == {(0.0, 2.0), (1.0, 5.0), (2.0, 8.0)}
    assert (draws["b"] == 2 * draws["a"]).all()
    assert draws["a"][:, 0].var() == pytest.approx(1.0 / 2, abs=0.05)


def test_one_seed_less_is_drawn_so_that_the_variance_is_right():
    """Means of 2 of 3 values 0, 3, 6 drawn: variance 6 / 2 = 3, that of a mean of three of variance 9."""
    weights = seed_weights(3, "a", Resampling(40_000))
    assert np.allclose(weights.sum(axis=1), 1.0)
    assert (weights @ [0.0, 3.0, 6.0]).var() == pytest.approx(np.var([0.0, 3.0, 6.0], ddof=1) / 3, rel=0.03)
    assert (seed_weights(1, "a", Resampling(5)) == 1.0).all()


def test_percentiles_are_as_far_out_as_students_t():
    places = (np.arange(100_000) + 0.5) / 100_000
    draws = stats.norm.ppf(places)
    found = percentile_interval(draws, 4.0)
    assert found.high == pytest.approx(2.7764, abs=0.02) and found.low == pytest.approx(-found.high)
    assert bootstrap_p(draws + 2.7764, 4.0) == pytest.approx(0.05, abs=0.001)
    assert bootstrap_p(draws, 4.0) == pytest.approx(1.0, abs=0.001)


def scores(table: np.ndarray) -> dict[int, dict[str, dict[str, float]]]:
    return {seed: {"m": {f"q{i}": float(x) for i, x in enumerate(row)}} for seed, row in enumerate(table, 1)}


def measured() -> Measured:
    seeds = {"A": scores(A), "B": scores(B)}
    results = {
        "start": {"m": {"q0": 0.0, "q1": 1.0}},
        **{name: averaged([*found.values()]) for name, found in seeds.items()},
    }
    tests = compare_over_seeds(results, seeds, ["start", "A"], [("A", "B")], Resampling(200))
    return Measured(results, [], by_seed=seeds, over_seeds=tuple(tests))


def test_pairs_with_several_seeds_are_compared_and_corrected():
    found = measured()
    assert found.results["A"]["m"] == {"q0": 1.0, "q1": 5.0}
    assert [(test.system, test.baseline, test.seeds, test.shared) for test in found.over_seeds] == [
        ("A", "start", (2, 1), False),
        ("B", "start", (2, 1), False),
        ("B", "A", (2, 2), True),
    ]
    last = found.over_seeds[-1]
    assert (last.difference, last.error, last.query_error, last.seed_error) == (-2.0, 2.0, 2.0, 1.0)
    assert last.seed_p == pytest.approx(1 - 2 / pi * atan(2.0)) and last.within_seeds
    assert [test.t_holm for test in found.over_seeds] == holm([test.t_p for test in found.over_seeds])
    assert [test.bootstrap_holm for test in found.over_seeds] == holm([test.bootstrap_p for test in found.over_seeds])


def test_one_run_a_system_has_no_such_tests():
    results = {"a": {"m": {"q": 1.0, "r": 2.0}}, "b": {"m": {"q": 0.0, "r": 1.0}}}
    assert compare_over_seeds(results, {}, ["a"]) == []


def test_metrics_with_seeds_are_read_as_they_were_written():
    found = measured()
    assert from_json(to_json(found)) == found
    assert {"over_seeds", "per_seed"} & to_json(Measured(found.results)).keys() == set()


def test_runs_of_other_queries_have_no_mean():
    with pytest.raises(UsageError, match="different queries"):
        averaged([{"m": {"q": 1.0}}, {"m": {"r": 1.0}}])


def test_a_bootstrap_over_queries_and_seeds_has_the_variance_of_both():
    """Of one part alone it is right; what queries and seeds have together counts three times."""
    random = np.random.default_rng(3)
    table = random.normal(size=(4, 1)) + random.normal(size=50)
    options = Resampling(20_000)
    draws = (query_draws({"a": table}, options)["a"] * seed_weights(4, "a", options)).sum(axis=1)
    assert draws.std() == pytest.approx(sqrt(spread([table]).variance), rel=0.04)


def certain(table: float) -> dict[int, dict[str, dict[str, float]]]:
    return scores(np.full((2, 3), table))


def test_draws_are_of_the_system_minus_the_baseline():
    """Scores of 3 and of 1, on every query and seed: whatever is drawn, the difference is 2."""
    seeds = {"A": certain(3.0), "B": certain(1.0)}
    results = {name: averaged([*found.values()]) for name, found in seeds.items()}
    for shared in ([("A", "B")], []):
        (found,) = compare_over_seeds(results, seeds, ["B"], shared, Resampling(50))
        assert found.difference == 2.0 and found.shared == bool(shared)
        assert found.bootstrap_interval is not None
        assert (found.bootstrap_interval.low, found.bootstrap_interval.high) == (2.0, 2.0)


def test_seeds_of_equal_numbers_are_one_draw_only_where_that_is_said():
    """B is A less 1 in each training: seed by seed nothing varies, and else the seeds of both do."""
    seeds = {"A": scores(A), "B": scores(A - 1)}
    results = {name: averaged([*found.values()]) for name, found in seeds.items()}
    (one,) = compare_over_seeds(results, seeds, ["B"], [("B", "A")], Resampling(200))
    (own,) = compare_over_seeds(results, seeds, ["B"], [], Resampling(200))
    assert (one.shared, one.error, one.seed_error) == (True, 0.0, 0.0)
    assert (own.shared, own.seed_error) == (False, sqrt(4.0 + 4.0))
    assert one.bootstrap_interval is not None and own.bootstrap_interval is not None
    assert one.bootstrap_interval.low == one.bootstrap_interval.high == 1.0
    assert own.bootstrap_interval.high - own.bootstrap_interval.low > 1.0


def test_systems_that_were_trained_once_are_not_compared_over_seeds():
    seeds = {"A": scores(A)}
    once = {"m": {"q0": 0.0, "q1": 1.0}}
    results = {"start": once, "other": once, "A": averaged([*seeds["A"].values()])}
    found = compare_over_seeds(results, seeds, ["start"], options=Resampling(50))
    assert [(test.system, test.baseline) for test in found] == [("A", "start")]


def test_degrees_of_freedom_are_those_of_each_part():
    """Queries 1, 3, 2 on average, seeds 1 and 3: variances 1 / 3 with two, 1 with one; rest 0, 1, -1 and its negative.

    The rest's squares sum to 4: 4 / 2 / 6 = 1 / 3 with two. Together 1 / 3 + 1 - 1 / 3 = 1 is no less than either, and
    1 / (1 / 9 / 2 + 1 / 1 + 1 / 9 / 2) = 9 / 10.
    """
    found = spread([np.array([[0.0, 3.0, 0.0], [2.0, 3.0, 4.0]])])
    assert found.query == Component(pytest.approx(1 / 3), 2)
    assert found.seeds == (Component(pytest.approx(1.0), 1),)
    assert found.rest == (Component(pytest.approx(1 / 3), 2),)
    assert found.variance == pytest.approx(1.0) and found.freedom == pytest.approx(9 / 10)


def test_one_query_has_no_variance_and_equal_draws_no_p_above_one():
    assert spread([np.array([[1.0], [3.0]])]).query == Component(0.0, 0)
    assert bootstrap_p(np.zeros(10), 4.0) == 1.0


def test_one_collection_has_the_spread_of_its_tables_and_more_have_that_of_their_mean() -> None:
    first, second = np.array([[0.5, 0.7, 0.1], [0.6, 0.9, 0.2]]), np.array([[0.4, 0.4, 0.3]])
    whole = spread([first, second])
    assert spread_over_collections([[first, second]]) == whole
    twice = spread_over_collections([[first, second], [first, second]])
    assert twice.mean == pytest.approx(whole.mean)
    # queries are drawn in each: half the variance; a seed is one draw for both: the same
    assert twice.query.variance == pytest.approx(whole.query.variance / 2)
    assert twice.rest[0].variance == pytest.approx(whole.rest[0].variance / 2)
    assert twice.seed_variance == pytest.approx(whole.seed_variance)
    assert twice.query.freedom == pytest.approx(2 * whole.query.freedom)
