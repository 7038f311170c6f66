"""Tests over queries and seeds, on numbers that were computed by hand."""

import json
from math import atan, inf, pi, sqrt

import numpy as np
import pytest
from scipy import stats

from hardneg.evaluation.intervals import (
    Component,
    Resampling,
    bootstrap_test,
    group_index,
    group_weights,
    interval_of,
    mean_variance,
    query_draws,
    seed_weights,
    spread,
)
from hardneg.evaluation.metrics import averaged
from hardneg.evaluation.metrics_json import Measured, from_json, read_metrics, to_json, write_metrics
from hardneg.evaluation.significance import Design, compare, compare_all, compare_over_seeds, holm
from hardneg.records import ArtifactError, UsageError

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
    found, _ = bootstrap_test(draws, 4.0)
    assert found.high == pytest.approx(2.7764, abs=0.02) and found.low == pytest.approx(-found.high)
    assert bootstrap_test(draws + 2.7764, 4.0)[1] == pytest.approx(0.05, abs=0.001)
    assert bootstrap_test(draws, 4.0)[1] == pytest.approx(1.0, abs=0.001)


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
    assert bootstrap_test(np.zeros(10), 4.0)[1] == 1.0


GROUPS = {"q1": "a", "q2": "a", "q3": "b", "q4": "b"}
SCORES = {"base": dict.fromkeys(GROUPS, 0.0), "other": {"q1": 0.0, "q2": 2.0, "q3": 4.0, "q4": 6.0}}


def test_the_variance_of_a_mean_by_hand() -> None:
    """Less the mean: -2 in one group, 1, 1 and 0 in the other; (4 / (3 / 4) + 4 / (1 / 4)) / 4 ** 2.

    Of the covariances 3 / 4, -3 / 4 and 3 / 4 the weights 4 / 3 and 4 make rows 1, -1 and -3, 3: 16 / (1 + 3 + 3 + 9).
    """
    found = mean_variance(np.array([1.0, 4.0, 4.0, 3.0]), np.array([0, 1, 1, 1]))
    assert found == Component(pytest.approx(4 / 3), pytest.approx(1.0))


def test_groups_of_unequal_sizes_have_fewer_degrees_of_freedom() -> None:
    """The traces as matrices have them, for groups of 1, 2 and 5 queries; of equal sizes it is the usual G - 1."""
    sizes = np.array([1.0, 2.0, 5.0])
    covariance = np.diag(sizes) - np.outer(sizes, sizes) / 8
    product = np.diag(1 / (1 - sizes / 8)) @ covariance
    expected = np.trace(product) ** 2 / np.trace(product @ product)
    assert group_weights(np.repeat([0, 1, 2], [1, 2, 5]))[1] == pytest.approx(expected) and expected < 2
    assert group_weights(np.repeat([0, 1, 2], 4))[1] == pytest.approx(2.0)


def test_groups_of_one_query_change_nothing() -> None:
    values = np.array([0.1, 0.2, 0.3, -0.1])
    alone = np.arange(4)
    for component in (mean_variance(values, alone), mean_variance(values)):
        assert component == Component(pytest.approx(0.0875 / 12), pytest.approx(3))
    assert spread([np.outer([1.0, 2.0], values)], alone).p == pytest.approx(spread([np.outer([1.0, 2.0], values)]).p)
    (by_query,), (by_group,) = (
        compare(SCORES, "m", design=Design(groups=groups)) for groups in (None, {name: name for name in GROUPS})
    )
    assert by_group.t_p == pytest.approx(by_query.t_p) and by_group.randomisation_p == by_query.randomisation_p


def test_a_pair_is_tested_by_group() -> None:
    """Differences 0, 2 and 4, 6: less the mean 3 sums of -4 and 4, so 2 * 32 / 16 = 4; signs of 2 and 10."""
    (found,) = compare(SCORES, "m", design=Design(5.0, GROUPS))
    assert (found.n, found.groups, found.difference, found.error) == (4, 2, 3.0, 2.0)
    assert found.t_p == pytest.approx(1 - 2 / pi * atan(1.5))
    assert found.randomisation_p == 2 / 4
    assert found.equivalence_p == pytest.approx(1 / 2 - atan(1.0) / pi)
    assert found.interval is not None and found.interval.high == pytest.approx(3 + 2 * 12.7062, abs=1e-3)
    assert found.bootstrap_interval is not None and found.bootstrap_p is not None
    # one group of the two is drawn: 1 or 5
    assert (found.bootstrap_interval.low, found.bootstrap_interval.high) == (1.0, 5.0)


def test_one_group_says_nothing() -> None:
    (found,) = compare(SCORES, "m", design=Design(groups=dict.fromkeys(GROUPS, "a")))
    assert (found.groups, found.t_p, found.randomisation_p, found.bootstrap_p, found.equivalence_p) == (1, 1, 1, 1, 1)
    assert found.interval is None and found.bootstrap_interval is None
    assert interval_of(SCORES["other"], dict.fromkeys(GROUPS, "a")) is None


def test_queries_asked_twice_in_groups_count_once_over_seeds() -> None:
    table = np.array([[0.0, 2.0], [2.0, 8.0]])
    twice = np.repeat(table, 2, axis=1)
    assert spread([twice], np.array([0, 0, 1, 1])).variance == pytest.approx(spread([table]).variance)
    assert spread([twice], np.array([0, 0, 1, 1])).freedom == pytest.approx(spread([table]).freedom)
    assert spread([twice]).query.variance < spread([table]).query.variance


def test_groups_are_drawn_whole_and_one_less_than_there_are() -> None:
    """Means of 2 of 3 groups 0, 3, 6 drawn: variance 6 / 2 = 3, that of a mean of three groups of variance 9."""
    table = np.array([[-1.0, 1.0, 3.0, 3.0, 2.0, 10.0]])
    draws = query_draws({"a": table}, Resampling(40_000), np.array([0, 0, 1, 1, 2, 2]))["a"][:, 0]
    assert set(draws) == {0.0, 1.5, 3.0, 4.5, 6.0}
    assert draws.var() == pytest.approx(3.0, rel=0.03)


def test_a_draw_is_the_mean_over_its_queries() -> None:
    """Groups of one query and of three; with one of the two drawn, either mean."""
    draws = query_draws({"a": np.array([[1.0, 4.0, 4.0, 4.0]])}, Resampling(100), np.array([0, 1, 1, 1]))["a"]
    assert set(draws[:, 0]) == {1.0, 4.0}


def test_tests_over_seeds_know_of_groups() -> None:
    seeds = {"A": {1: {"m": SCORES["other"]}, 2: {"m": {name: 2 * x for name, x in SCORES["other"].items()}}}}
    results = {"base": {"m": SCORES["base"]}, "A": averaged([*seeds["A"].values()])}
    (found,) = compare_over_seeds(results, seeds, ["base"], design=Design(groups=GROUPS))
    # means over seeds 0, 3 and 6, 9: less 4.5 sums of -6 and 6, so 2 * 72 / 16
    assert (found.groups, found.query_error) == (2, 3.0)
    assert found.bootstrap_interval is not None


def test_a_file_keeps_the_groups_and_its_intervals_are_theirs() -> None:
    results = {name: {"m": scores} for name, scores in SCORES.items()}
    measured = Measured(results, compare_all(results, design=Design(groups=GROUPS)), query_groups=GROUPS)
    content = to_json(measured)
    assert content["query_groups"] == GROUPS and content["comparisons"][0]["groups"] == 2
    assert content["intervals"]["other"]["m"] == pytest.approx([3 - 2 * 12.7062, 3 + 2 * 12.7062], abs=1e-3)
    assert from_json(content) == measured
    assert not {"groups", "bootstrap_p"} & to_json(Measured(results, compare_all(results)))["comparisons"][0].keys()


def test_every_query_has_a_group() -> None:
    with pytest.raises(UsageError, match=r"1 of 2 queries, such as 'q9', have no group; add lines"):
        group_index(["q1", "q9"], GROUPS)


RESULTS = {
    "bm25": {"ndcg@10": {"q2": 0.5, "q1": 1.0}, "mrr": {"q2": 0.25, "q1": 0.25}},
    "dense": {"ndcg@10": {"q1": 0.5, "q2": 0.5}, "mrr": {"q1": 1.0, "q2": 1.0}},
}


ONE_QUERY = {"a": {"mrr": {"q": 0.5}}, "b": {"mrr": {"q": 0.25}}}


@pytest.mark.parametrize(
    "known",
    [
        Measured(RESULTS, compare_all(RESULTS)),
        Measured(RESULTS, [], {"*": ["bm25"]}),
        Measured(ONE_QUERY, compare_all(ONE_QUERY)),
        measured(),
    ],
)
def test_round_trip(known, tmp_path):
    path = tmp_path / "metrics.json"
    write_metrics(path, known)
    assert read_metrics(path) == known
    assert [file.name for file in tmp_path.iterdir()] == ["metrics.json"]
    assert ("marks" in json.loads(path.read_text())) == bool(known.marks)


def test_content():
    content = to_json(Measured(RESULTS))
    assert content["metrics"]["bm25"] == {"ndcg@10": 0.75, "mrr": 0.25}
    assert content["intervals"]["bm25"]["mrr"] == [0.25, 0.25]
    assert list(content["per_query"]["bm25"]["ndcg@10"]) == ["q1", "q2"]
    assert content["comparisons"] == []
    assert to_json(Measured(ONE_QUERY))["intervals"] == {"a": {"mrr": None}, "b": {"mrr": None}}


def test_where_seeds_decide_tests_by_query_have_no_verdict_and_intervals_know_the_seeds():
    """Means .5 and .6 of seeds with two queries each: by query nothing varies, over seeds it does."""
    by_seed = {"a": {1: {"m": {"q1": 0.5, "q2": 0.5}}, 2: {"m": {"q1": 0.6, "q2": 0.6}}}}
    same = {"m": {"q1": 0.5, "q2": 0.5}}
    results = {"a": {"m": {"q1": 0.55, "q2": 0.55}}, "b": same, "c": same}
    over = tuple(compare_over_seeds(results, by_seed, ["b"]))
    content = to_json(Measured(results, compare_all(results, ["b"]), by_seed=by_seed, over_seeds=over))
    low, high = content["intervals"]["a"]["m"]
    assert low < 0.5 and high > 0.6 and content["intervals"]["b"]["m"] == [0.5, 0.5]
    decided = {(each["system"], "verdict" in each) for each in content["comparisons"]}
    assert decided == {("a", False), ("c", True)} and all("verdict" in each for each in content["over_seeds"])


def test_the_order_of_queries_does_not_change_the_bytes(tmp_path):
    turned = {
        system: {metric: dict(reversed(values.items())) for metric, values in scores.items()}
        for system, scores in RESULTS.items()
    }
    write_metrics(tmp_path / "a.json", Measured(RESULTS))
    write_metrics(tmp_path / "b.json", Measured(turned))
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()


@pytest.mark.parametrize("text", [None, "", "[]", '{"metrics": {}}', '{"per_query": {"s": {"mrr": {"q": "high"}}}}'])
def test_foreign_files(tmp_path, text):
    path = tmp_path / "metrics.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ArtifactError, match=r"metrics\.json: not a metrics file"):
        read_metrics(path)
