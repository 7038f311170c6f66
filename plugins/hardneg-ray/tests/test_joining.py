"""How a cluster is joined, or that it is not there."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack

import psutil
import pytest
from hardneg_ray import joining
from hardneg_ray.engine import Ray
from hardneg_ray.joining import beside, silence

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
    """An address at which nothing answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_what_answers_is_joined(closed, monkeypatch):
    monkeypatch.setattr(joining, "_MEETING", 0.0)
    monkeypatch.setattr(joining, "_PAUSE", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"127.0.0.1:{server.getsockname()[1]}"
        assert silence(there) == "" and joining._address(there) == there
    assert silence("ray://there:1") == silence("local") == ""
    with pytest.raises(UsageError, match=f"no cluster at {closed} .*, for 0 seconds.; see `ray start`, or"):
        joining._address(closed)


def test_a_cluster_that_asks_for_a_token_is_told(monkeypatch):
    def refuses(**given: object) -> None:
        raise ConnectionError("Failed to connect") from RuntimeError("RPC error: InvalidAuthToken: missing")

    monkeypatch.setattr(joining.ray, "init", refuses)
    monkeypatch.setattr(joining, "silence", lambda address: "")
    with pytest.raises(UsageError, match="it asks for another token: set RAY_AUTH_MODE"), ExitStack() as ends:
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
