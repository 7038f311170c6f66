"""Queries that come in groups: variances, tests and draws are those of groups, on numbers computed by hand."""

from math import atan, pi

import numpy as np
import pytest

from hardneg.evaluation.intervals import (
    Component,
    Resampling,
    group_index,
    group_weights,
    interval_of,
    mean_variance,
    query_draws,
)
from hardneg.evaluation.metrics import averaged
from hardneg.evaluation.metrics_json import Measured, from_json, to_json
from hardneg.evaluation.significance import Design, compare, compare_all
from hardneg.evaluation.two_level import compare_over_seeds, spread
from hardneg.records.errors import UsageError

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
    with pytest.raises(UsageError, match=r"no group of 1 of 2 queries, such as 'q9': add a line"):
        group_index(["q1", "q9"], GROUPS)
