"""The names of splits: their order, and which a collection may have."""

import re
from collections.abc import Iterable

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_USUAL = ("train", "dev", "test")


def order_splits(names: Iterable[str]) -> list[str]:
    """Split names in the order train, dev, test, then the others by name."""
    return sorted(set(names), key=lambda name: (_USUAL.index(name) if name in _USUAL else len(_USUAL), name))


def split_problem(name: str) -> str:
    """Why a split cannot have this name, which becomes that of a file; empty where it can."""
    if _NAME.fullmatch(name):
        return ""
    return f"split {name!r}: a name has letters, digits, '.', '_' and '-', and begins with a letter or digit; rename it"
