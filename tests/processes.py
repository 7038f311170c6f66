"""Several processes that know of each other, as a launcher would start them."""

import contextlib
import os
import random
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to whoever asks for any, so that none is taken by chance before it is bound."""


def free_port() -> int:
    """A port that nothing is bound to."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports are all taken")


def launch(program: Path, arguments: list[str], number: int) -> list[subprocess.Popen[bytes]]:
    """`number` processes that run a Python file, with one thread each."""
    port = free_port()
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(number), "OMP_NUM_THREADS": "1"}
    path = os.pathsep.join(map(str, (HERE.parent, HERE, HERE / "training")))
    return [
        subprocess.Popen(
            [sys.executable, str(program), *arguments],
            env={**os.environ, **shared, "PYTHONPATH": path, "RANK": str(rank), "LOCAL_RANK": str(rank)},
        )
        for rank in range(number)
    ]


def codes(running: list[subprocess.Popen[bytes]]) -> list[int]:
    """How each ended; none outlives this."""
    try:
        return [process.wait() for process in running]
    finally:
        for process in running:
            process.kill()
