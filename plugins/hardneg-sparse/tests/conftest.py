"""Fixtures from hardneg's own tests (small collections, a tiny encoder), so these tests need its sources."""

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

TESTS = Path(__file__).parents[3] / "tests"
sys.path[:0] = [str(Path(__file__).parent), *(str(TESTS / name) for name in ("", "training", "integrations/trainer"))]
sys.path.append(str(TESTS.parent))  # for helpers of `tests`, behind what is installed
from package_fixtures import own_store, started_java, test_data, tiny_model  # noqa: E402, F401

settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # as in the processes that tests start: sums are alike to the bit
