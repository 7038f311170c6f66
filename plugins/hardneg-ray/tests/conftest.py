import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

os.environ["OMP_NUM_THREADS"] = "1"  # as many as an actor of one core has, so that sums have the same order
sys.path.insert(0, str(Path(__file__).parent))  # where the small work is


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A small cluster on this machine for all tests of a module; other modules need that there is none."""
    import ray

    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    first = {"worker_niceness": 0}  # by default all other tests come first
    ray.init(address="local", num_cpus=4, object_store_memory=80_000_000, _system_config=first, **quiet)
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def ending() -> Iterator[list[psutil.Process]]:
    """Processes that must end with the tests; Ray's agents look for their server for up to a minute."""
    processes: list[psutil.Process] = []
    yield processes
    assert not psutil.wait_procs(processes, timeout=300)[1], "a start that was stopped has left processes"


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
