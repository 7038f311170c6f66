"""The same training in one process and in two."""

from pathlib import Path

from processes import launch
from reranker_toy import train_still
from safetensors.torch import load_file
from torch import Tensor

HERE = Path(__file__).parent


def results(toy: Path, model: Path, out: Path) -> list[dict[str, Tensor]]:
    """The weights of the one, then those of each of the two."""
    running = launch([HERE / "reranker_toy.py", toy, model, out], 2)
    try:
        train_still(toy, model, out, 0, 1)
        assert [process.wait() for process in running] == [0, 0]
    finally:
        for process in running:
            process.kill()
    return [load_file(out / f"{name}.safetensors") for name in ("1-0", "2-0", "2-1")]
