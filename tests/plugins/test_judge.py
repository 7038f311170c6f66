"""The package of the verb `judge`, as a stranger installs it beside hardneg's wheel."""

from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2] / "plugins" / "hardneg-judge" / "tests"


@pytest.mark.slow
def test_judge_keeps_its_own_tests_and_shows_its_options(outside: Callable[..., str]) -> None:
    assert " passed" in outside("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", TESTS)
    assert "hardneg-judge" in outside("-m", "hardneg", "plugins", "list", "stages")
    assert "in_flight: " in outside("-m", "hardneg", "plugins", "show", "reranker", "chat")
    assert "flagged_share" in outside("-m", "hardneg", "plugins", "show", "stage", "judge")
