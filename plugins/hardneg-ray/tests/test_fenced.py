"""Who can reach a cluster that is started here."""

import ipaddress
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import ray
from hardneg_ray.engine import Ray
from hardneg_ray.joining import fenced, joined

STRANGER = """
import sys
from ray._raylet import GcsClient
GcsClient(address=sys.argv[1])
print("in")
"""


def test_the_token_is_new_and_private(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "of another cluster")
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    tokens = set()
    for _ in range(2):
        with fenced():
            path = Path(os.environ["RAY_AUTH_TOKEN_PATH"])
            assert os.environ["RAY_AUTH_MODE"] == "token" and "RAY_AUTH_TOKEN" not in os.environ
            assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
            tokens.add(path.read_text())
        assert not path.exists() and "RAY_AUTH_MODE" not in os.environ
        assert os.environ["RAY_AUTH_TOKEN"] == "of another cluster"
    assert [len(token) for token in tokens] == [64, 64]


def stranger(address: str, **given: str) -> str:
    """What a process with other variables hears when it joins."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-c", STRANGER, address], env={**kept, **given}, capture_output=True, text=True, timeout=300
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_a_cluster_that_is_started_here_is_reached_from_this_machine_alone_and_with_its_token(tmp_path: Path) -> None:
    assert not ray.is_initialized()
    with joined(Ray(address="local")):
        assert ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid()  # a worker is there
        here = psutil.Process()
        listening = [
            (process.name(), ipaddress.ip_address(socket.laddr.ip.removeprefix("::ffff:")))
            for process in (here, *here.children(recursive=True))
            for socket in process.net_connections()
            if socket.status == psutil.CONN_LISTEN
        ]
        assert {"gcs_server", "raylet"} <= {name for name, _ in listening} and len(listening) >= 6, listening
        assert all(address.is_loopback for _, address in listening), listening
        address = ray.get_runtime_context().gcs_address
        own = Path(os.environ["RAY_AUTH_TOKEN_PATH"]).read_text()
        assert "InvalidAuthToken" in stranger(address, RAY_AUTH_MODE="disabled")
        assert "InvalidAuthToken" in stranger(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN="0" * 64)
        assert stranger(address, RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=own) == "in\n"
