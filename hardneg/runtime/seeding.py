"""Random draws that depend only on a seed and names, not on order, batch, process or machine."""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SEED = 42
"""The default seed of a recipe."""
FIXED = 0
"""The seed of draws that ignore the recipe's seed: generated data, and weights missing from a model's files."""


def derive_seed(seed: int, *names: object) -> int:
    """Return a 64-bit seed from a base seed and names, such as a query id, an epoch or a step."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def drawn_order(seed: int, name: str, ids: Iterable[str]) -> list[str]:
    """Return the ids in a random order that depends only on `seed` and `name`; a subset has the same relative order."""
    return sorted(ids, key=lambda item_id: (derive_seed(seed, name, item_id), item_id))


def generator(seed: int, *names: object) -> "np.random.Generator":
    """Return a numpy generator whose draws depend only on `seed` and `names`."""
    import numpy as np

    return np.random.Generator(np.random.PCG64(derive_seed(seed, *names)))
