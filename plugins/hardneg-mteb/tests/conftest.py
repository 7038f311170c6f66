"""Fixtures: no test may reach the network. The tests use helpers of hardneg's own tests, so they need its sources."""

import socket
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[3] / "tests")]
from package_fixtures import own_store, started_java, test_data, tiny_model  # noqa: E402, F401


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test at a connection to another machine or to a port of this one."""
    connect = socket.socket.connect

    def refused(self: socket.socket, address: Any) -> None:
        assert self.family not in (socket.AF_INET, socket.AF_INET6), f"connects to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refused)
