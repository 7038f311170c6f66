"""What decides a network's cost, from its configuration alone."""

import json
from dataclasses import dataclass
from pathlib import Path

from hardneg.errors import HardnegError
from hardneg.models.source import locate
from hardneg.models.spec import ModelSpec
from hardneg.models.weights import weight_files

_VOCABULARY = 30_522


@dataclass(frozen=True)
class Shape:
    """What decides a model's cost: hidden size, layers, and the bytes of its weights."""

    hidden: int = 768
    layers: int = 12
    weights: int = 440_000_000

    @property
    def operations_a_token(self) -> float:
        """Multiplications and additions of one forward pass, by token."""
        return 2.0 * 12 * self.layers * self.hidden**2

    def kept_a_token(self, length: int, checkpointing: bool = False) -> int:
        """Bytes that training keeps of one token until its gradient: layers, and attention to so many tokens.

        checkpointing: only what goes into each layer is kept, and one layer at a time as a whole.
        """
        layer = 60 * self.hidden + 3 * 4 * max(12, self.hidden // 64) * length
        return self.layers * 4 * self.hidden + layer if checkpointing else self.layers * layer

    @property
    def embeddings(self) -> int:
        """Bytes of the word embeddings of a vocabulary of usual size."""
        return _VOCABULARY * self.hidden * 4


BASE = Shape()
LARGE = Shape(1024, 24, 1_340_000_000)


def model_shape(spec: ModelSpec) -> Shape:
    """A model's shape from its configuration; where that is not at hand, a large or a base one's by its name."""
    unseen = LARGE if "large" in spec.name.lower() else BASE
    try:
        folder = locate(spec)
    except HardnegError:
        return unseen
    if not isinstance(folder, Path):
        return unseen
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        weights = sum(path.stat().st_size for path in weight_files(folder))
    except (OSError, ValueError, HardnegError):
        return unseen
    return Shape(int(config.get("hidden_size", 768)), int(config.get("num_hidden_layers", 12)), weights)
