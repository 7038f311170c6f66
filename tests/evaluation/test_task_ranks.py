"""Ranks over tasks, and which of them the tasks leave open."""

import numpy as np
import pytest

from hardneg.evaluation.metrics_json import Measured
from hardneg.evaluation.significance import compare_all
from hardneg.evaluation.task_ranks import over_tasks, ranks


def by_task(values: list[float]) -> dict[str, dict[str, float]]:
    return {"m": {f"t{i}": value for i, value in enumerate(values)}}


def test_a_system_that_wins_on_every_task_is_first_and_two_that_share_the_wins_may_be_second_or_third() -> None:
    scores = {
        "second": by_task([0.5, 0.4, 0.5, 0.4, 0.5, 0.4, 0.5, 0.4]),
        "first": by_task([0.9, 0.8, 0.9, 0.8, 0.9, 0.8, 0.9, 0.8]),
        "third": by_task([0.4, 0.5, 0.4, 0.5, 0.4, 0.5, 0.4, 0.48]),
    }
    found = ranks(scores)
    assert [(each.system, each.rank, each.best, each.worst) for each in found] == [
        ("first", 1, 1, 1),
        ("second", 2, 2, 3),
        ("third", 3, 2, 3),
    ]
    assert found[0].mean == pytest.approx(0.85)
    half = 2.364624 * 0.0534522 / 8**0.5  # t of 7 degrees of freedom, and the deviation over the 8 tasks
    assert found[0].interval is not None
    assert (found[0].interval.low, found[0].interval.high) == pytest.approx((0.85 - half, 0.85 + half), abs=1e-6)


def test_two_tasks_leave_all_ranks_open() -> None:
    found = ranks({"a": by_task([0.9, 0.8]), "b": by_task([0.1, 0.2])})
    assert [(each.system, each.rank, each.best, each.worst) for each in found] == [("a", 1, 1, 2), ("b", 2, 1, 2)]


def test_equal_systems_share_a_rank() -> None:
    found = ranks({"a": by_task([0.5, 0.6, 0.7]), "b": by_task([0.7, 0.5, 0.6])})
    assert [each.rank for each in found] == [1, 1] and all((each.best, each.worst) == (1, 2) for each in found)


def test_intervals_hold_the_ranks_of_all_systems_together() -> None:
    """Two equal systems and a better one, 6 tasks: all intervals hold in 95 % of 200 draws, or 181 by chance (99 %)."""
    random, held = np.random.default_rng(1), 0
    for _ in range(200):
        task = random.normal(0, 0.1, 6)
        scores = {
            name: by_task(list(task + mean + random.normal(0, 0.02, 6)))
            for name, mean in {"a": 0.5, "b": 0.4, "c": 0.4}.items()
        }
        found = {each.system: (each.best, each.worst) for each in ranks(scores)}
        held += found["a"][0] == 1 and found["b"][0] <= 2 and found["b"][1] == found["c"][1] == 3 >= found["c"][0]
    assert held >= 181


def measured(values: dict[str, float]) -> Measured:
    results = {system: {"m": {"q1": value, "q2": value}} for system, value in values.items()}
    return Measured(results, compare_all(results, ["a"]), equivalence_margin=0.02)


def test_a_task_of_several_splits_counts_once_and_tests_are_over_tasks() -> None:
    found = over_tasks({
        "T1/dev": measured({"a": 0.2, "b": 0.4}),
        "T1/test": measured({"a": 0.4, "b": 0.8}),
        "T2/test": measured({"a": 0.5, "b": 0.6}),
    })  # fmt: skip
    assert found is not None
    assert found.measured.results["b"]["m"] == {"T1": pytest.approx(0.6), "T2": 0.6}
    (test,) = found.measured.comparisons
    assert (test.system, test.baseline, test.n, test.difference) == ("b", "a", 2, pytest.approx(0.2))
    content = found.to_json()
    assert content["per_task"]["a"]["m"]["T2"] == 0.5 and "per_query" not in content
    assert content["comparisons"][0]["verdict"] == "undecided" and content["equivalence_margin"] == 0.02
    assert content["ranks"][0] | {"interval": None} == {
        "system": "b", "metric": "m", "mean": pytest.approx(0.6), "interval": None, "rank": 1, "best": 1, "worst": 2,
    }  # fmt: skip


def test_one_task_or_one_system_has_no_ranks() -> None:
    assert over_tasks({"T1/dev": measured({"a": 0.2, "b": 0.4}), "T1/test": measured({"a": 0.2, "b": 0.4})}) is None
    assert over_tasks({}) is None
    assert over_tasks({name: Measured({"a": {"m": {"q": 0.5}}}) for name in ("T1/test", "T2/test")}) is None
