"""The package of the index `cagra`, as a stranger installs it beside hardneg's wheel."""

from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2] / "plugins" / "hardneg-cagra" / "tests"


@pytest.mark.slow
def test_cagra_keeps_its_own_tests_and_shows_its_options(outside: Callable[..., str]) -> None:
    assert " passed" in outside("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", TESTS)
    assert "hardneg-cagra" in outside("-m", "hardneg", "plugins", "list", "indexes")
    assert "intermediate: int = 128" in outside("-m", "hardneg", "plugins", "show", "index", "cagra")
