"""Tests of joining a cluster, and of isolating one that was started here."""

import ipaddress
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
import ray
from hardneg_ray import joining
from hardneg_ray.engine import Ray
from hardneg_ray.joining import beside, fenced, joined, silence

from hardneg.records import UsageError


def test_what_takes_long_is_left_when_the_process_is_asked_to_end():
    ends = threading.Event()

    def stop(number: int, frame: object) -> None:
        sys.exit(128 + number)

    def asked_to_end() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        ends.wait(60)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        with pytest.raises(SystemExit) as ended, beside(asked_to_end):
            pass
    finally:
        ends.set()
        signal.signal(signal.SIGTERM, before)
    assert ended.value.code == 143


def test_work_beside_lives_as_long_as_the_block():
    with beside(threading.current_thread) as thread:
        assert thread.is_alive() and thread is not threading.current_thread()
    thread.join(10)
    assert not thread.is_alive()
    with pytest.raises(ValueError, match="no such"), beside(lambda: int("no such")):
        pass


@pytest.fixture
def closed() -> str:
    """Return an address at which nothing answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_what_answers_is_joined(closed, monkeypatch):
    monkeypatch.setattr(joining, "_MEETING", 0.0)
    monkeypatch.setattr(joining, "_PAUSE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        assert silence(there) == "" and joining._address(there) == there
    assert silence("ray://there:1") == silence("local") == ""
    with pytest.raises(UsageError, match=f"no cluster at {closed} .* for 0 seconds.; start one with `ray start`, or"):
        joining._address(closed)


def test_a_cluster_that_asks_for_a_token_is_told(monkeypatch):
    def refuses(**given: object) -> None:
        raise ConnectionError("Failed to connect") from RuntimeError("RPC error: InvalidAuthToken: missing")

    monkeypatch.setattr(joining.ray, "init", refuses)
    monkeypatch.setattr(joining, "silence", lambda address: "")
    with pytest.raises(UsageError, match="it requires another token; set RAY_AUTH_MODE"), ExitStack() as ends:
        joining._join(Ray(address="there:1"), ends)


def test_auto_joins_no_cluster_that_was_killed(closed, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert joining._address("auto") == "local"
    (tmp_path / "ray").mkdir()
    with socket.create_server(("127.0.0.1", 0)) as server:
        (tmp_path / "ray" / "ray_current_cluster").write_text(f"127.0.0.1:{server.getsockname()[1]}\n")
        assert joining._address("auto") == "auto"
    (tmp_path / "ray" / "ray_current_cluster").write_text(f"{closed}\n")
    assert joining._address("auto") == "local"
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert joining._address("auto") == "local"


STARTS = """
import signal
import time
from hardneg.cli.main import _stop
from hardneg_ray.engine import Ray
from hardneg_ray.joining import joined

signal.signal(signal.SIGTERM, _stop)
print("begun", flush=True)
with joined(Ray(address="local")):
    print("joined", flush=True)
    time.sleep(60)
"""


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [1.0, 4.0])
def test_a_start_that_is_stopped_leaves_nothing(seconds, ending):
    with subprocess.Popen(
        [sys.executable, "-c", STARTS], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        assert run.stdout and run.stdout.readline() == "begun\n"
        time.sleep(seconds)
        ending += psutil.Process(run.pid).children(recursive=True)  # that they end is checked after all tests
        os.kill(run.pid, signal.SIGTERM)
        told = run.communicate(timeout=120)[1]
    assert run.returncode == 143 and "hardneg: stopped; finished work is saved" in told, told


ENDS_SLOWLY = """
import signal
import sys
import time
import ray
from hardneg_ray.joining import beside

def start():
    ray.init(address="local", include_dashboard=False, object_store_memory=80_000_000, log_to_driver=False)
    signal.raise_signal(signal.SIGTERM)
    time.sleep(60)

signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
signal.signal = lambda *given: None  # as if it came before the program's handlers were put back
try:
    with beside(start):
        pass
finally:
    time.sleep(5)
"""


@pytest.mark.slow
def test_rays_own_handler_aborts_no_end_that_takes_its_time():
    run = subprocess.run([sys.executable, "-c", ENDS_SLOWLY], capture_output=True, text=True, timeout=300)
    assert run.returncode == 143 and "SIGTERM received" in run.stderr, run.stderr


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
    """Return the output of a process that joins `address` with only the variables `given` of Ray's."""
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
