"""The package of the encoder `http`, as a stranger installs it beside hardneg's wheel."""

from collections.abc import Callable
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[2] / "plugins" / "hardneg-http" / "tests"


@pytest.mark.slow
def test_http_keeps_its_own_tests_and_shows_its_options(outside: Callable[..., str]) -> None:
    assert " passed" in outside("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", TESTS)
    assert "hardneg-http" in outside("-m", "hardneg", "plugins", "list", "encoders")
    assert "in_flight: int = 4" in outside("-m", "hardneg", "plugins", "show", "encoder", "http")
