"""The benchmark of tests of equivalence, of ranks over tasks and of queries in groups, in small."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import equivalence_tests

    return equivalence_tests


def test_every_table_has_a_row(program: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for models in (program.SEEDED, program.SPARSE, program.RANKED, program.GROUPED):
        program.table("head", models[:1], 2, 1)
    rows = capsys.readouterr().out.split("\n\n")
    assert len(rows) == 4 and all(len(row.strip().splitlines()) == 3 for row in rows)


def test_ranks_of_equal_systems_are_told_apart_no_more_often_than_their_level(program: Any) -> None:
    """300 draws: 0.05 + 2.33 sqrt(0.05 * 0.95 / 300) = 0.079 is the most that a right test has, one-sided 99 %."""
    equal = dict(program.rates(partial(program.Ranked(10, 4, 0.0).tests, mean=0.0), 300, 1))
    better = dict(program.rates(partial(program.Ranked(10, 4, 0.05).tests, mean=0.0), 300, 1))
    assert equal["an interval lacks a rank"] <= 0.079 and better["an interval lacks a rank"] <= 0.079
    assert better["the better one is first alone"] > 0.8
