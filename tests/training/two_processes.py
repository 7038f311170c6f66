"""The same training in one process and in two."""

import os
import subprocess
import sys
from pathlib import Path

from processes import free_port
from reranker_toy import train_still
from safetensors.torch import load_file
from torch import Tensor

HERE = Path(__file__).parent


def results(toy: Path, model: Path, out: Path) -> list[dict[str, Tensor]]:
    """The weights of the one, then those of each of the two."""
    port = free_port()
    path = os.pathsep.join(map(str, (HERE.parents[2], HERE.parent, HERE)))
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / "reranker_toy.py"), str(toy), str(model), str(out)]
    running = [
        subprocess.Popen(
            command, env={**os.environ, **shared, "PYTHONPATH": path, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        )
        for rank in range(2)
    ]
    try:
        train_still(toy, model, out, 0, 1)
        assert [process.wait() for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    return [load_file(out / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1")]
