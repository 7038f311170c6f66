"""No test of mteb's tasks may reach the network."""

import socket
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection to another machine, or to a port of this one, fails the test."""
    connect = socket.socket.connect

    def refused(self: socket.socket, address: Any) -> None:
        assert self.family not in (socket.AF_INET, socket.AF_INET6), f"connects to {address}"
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", refused)
