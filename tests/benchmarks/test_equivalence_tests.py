"""The benchmark of tests of equivalence and of queries in groups, in small."""

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
    for models in (program.SEEDED, program.SPARSE, program.GROUPED):
        program.table("head", models[:1], 2, 1)
    rows = capsys.readouterr().out.split("\n\n")
    assert len(rows) == 3 and all(len(row.strip().splitlines()) == 3 for row in rows)
