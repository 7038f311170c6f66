"""Several processes that know of each other, as a launcher would start them."""

import contextlib
import os
import random
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import forked

HERE = Path(__file__).parent


_PORTS = range(20_000, 32_000)
"""Below those that Linux gives to whoever asks for any, so that none is taken by chance before it is bound."""

TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1", "--nproc-per-node"]
"""The launcher, before a number of processes."""


def free_port() -> int:
    """A port that nothing is bound to."""
    for port in random.SystemRandom().sample(_PORTS, 100):
        with socket.socket() as tried, contextlib.suppress(OSError):
            tried.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports are all taken")


def launch(program: Sequence[object], number: int, **options: Any) -> list[forked.Program]:
    """`number` processes that run a Python file, or `-m` and a module, with one thread each."""
    port = free_port()
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(number), "OMP_NUM_THREADS": "1"}
    shared["PYTHONPATH"] = os.pathsep.join(map(str, (HERE.parent, HERE, HERE / "training")))
    ranks = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(number)]
    command = [sys.executable, *program]
    return [forked.Program(command, env={**os.environ, **shared, **rank}, **options) for rank in ranks]


def codes(running: Sequence[subprocess.Popen[Any]]) -> list[int]:
    """How each ended; none outlives this."""
    try:
        return [process.wait() for process in running]
    finally:
        for process in running:
            process.kill()


def loaded(program: str, names: str) -> set[str]:
    """Which modules, of those named with spaces between, an interpreter has after a program that ends well."""
    code = f"import sys\ntry:\n exec({program!r})\nexcept SystemExit as end:\n assert not end.code\n"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}print('modules:', *sys.modules)"], capture_output=True, text=True, check=True
    )
    return {*done.stdout.rpartition("modules:")[2].split()} & {*names.split()}
