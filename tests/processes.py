"""Several processes that know of each other, as a launcher would start them."""

import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def launch(program: Path, arguments: list[str], number: int) -> list[subprocess.Popen[bytes]]:
    """`number` processes that run a Python file, with one thread each."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
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
