"""The benchmark of tests over seeds, in small: what it finds of two systems that are one."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import seed_tests

    return seed_tests


@pytest.mark.slow
def test_the_test_over_seeds_is_at_its_level_where_tests_by_query_are_not(program: Any) -> None:
    """300 draws: 0.05 + 2.33 sqrt(0.05 * 0.95 / 300) = 0.079 is the most that a right test has, one-sided 99 %."""
    found = program.rates(program.Model(200, 5, 0.02).draw, 300, 1_000, 1)
    assert found["t over queries and seeds"] <= 0.079 and found["bootstrap, corrected"] <= 0.079
    assert found["t by query, one seed"] > 0.25 and found["t by query, means over seeds"] > 0.25


def test_draws_are_made_of_real_scores(program: Any, tmp_path: Path) -> None:
    table = np.arange(6.0).reshape(2, 3)
    seeds = {seed: {"m": {f"q{i}": x for i, x in enumerate(row)}} for seed, row in enumerate(table.tolist())}
    (tmp_path / "metrics.json").write_text(json.dumps({"per_seed": {"A": seeds}}))
    name, draw = program.of_trainings(tmp_path / "metrics.json", "A", "m", 4, 0.0)
    first, second = draw(np.random.default_rng(0))
    assert name == "A, m | 3 | 4 | 0.0000" and first.shape == second.shape == (4, 3)
    assert {*first.flat, *second.flat} <= {*table.flat}
    assert all(len({x % 3 for x in column}) == 1 for column in np.concatenate([first, second]).T)
