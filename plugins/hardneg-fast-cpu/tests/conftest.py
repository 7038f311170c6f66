"""The tests run in hardneg's sources, with its helpers."""

import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(Path(__file__).parent), str(TESTS)]
sys.path.append(str(TESTS.parent))  # for helpers of `tests`, behind what is installed
from package_fixtures import own_store, test_data, tiny_model  # noqa: E402, F401

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


@pytest.fixture
def small_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make networks of any size use the faster kernels."""
    monkeypatch.setattr("hardneg_fast_cpu.passes.LARGE", 1)


@pytest.fixture
def small_searches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make all exact searches, except those of few vectors, multiply in bfloat16 on any CPU."""
    from hardneg_fast_cpu import search

    monkeypatch.setattr(search, "_LARGE_ON_CPU", 0)
    monkeypatch.setattr(search, "_FEW_QUERIES", 0)
    monkeypatch.setattr(search.runtime, "has_bf16_units", lambda device: True)
