"""Random draws that depend on a seed and on names, and on nothing else: not on order, batch, process or machine."""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SEED = 42
"""The default seed of a recipe and of all that it draws."""
FIXED = 0
"""The seed of what a recipe's own seed leaves alone: data made here, weights that a model's files lack."""


def derive_seed(seed: int, *names: object) -> int:
    """A 64-bit seed from a base seed and names (a query id, an epoch, a step); equal inputs give equal seeds."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def drawn_order(seed: int, name: str, ids: Iterable[str]) -> list[str]:
    """The ids in an order that depends on the seed, the draw and each id: a part of them keeps its order."""
    return sorted(ids, key=lambda item_id: (derive_seed(seed, name, item_id), item_id))


def generator(seed: int, *names: object) -> "np.random.Generator":
    """A numpy generator whose draws depend on `seed` and `names` only."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(derive_seed(seed, *names)))
