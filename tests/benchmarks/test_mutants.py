"""The benchmark of faults put into the code: what it changes, and what it leaves alone."""

from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = '''
from typing import Literal, ClassVar

class Some:
    version: ClassVar[int] = 1
    form: Literal["a", 3] = "a"

def most(values: list[int], least: float = 0.5) -> float:
    """The 2 largest."""
    if not values:
        return -1
    return max(value * 2 if value < 7 and least else value for value in values)
'''


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    import mutants

    return mutants


def test_each_mutant_has_one_fault(program: Any, tmp_path: Path) -> None:
    path = tmp_path / "some.py"
    path.write_text(SOURCE)
    made = list(program.mutants_of(path))
    assert [(each.line, each.before, each.after) for each in made] == [
        (8, "0.5", "0.85"),
        (10, "if not values", "if not not values"),
        (11, "-1", "+1"),
        (11, "1", "2"),
        (12, "value * 2 if value < 7 and least else value", "value if value < 7 and least else value * 2"),
        (12, "value < 7 and least", "value < 7 or least"),
        (12, "value < 7", "value <= 7"),
        (12, "7", "8"),
        (12, "value * 2", "value / 2"),
        (12, "2", "3"),
    ]
    results = []
    for each in made:
        names: dict[str, Any] = {}
        exec(each.code, names)
        results.append(names["most"]([6, 9]))
    assert results == [12, -1, 12, 12, 18, 18, 12, 12, 9, 18]
