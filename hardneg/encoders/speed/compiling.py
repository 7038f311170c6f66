"""A transformer compiled by `torch.compile`."""

import shutil
from typing import Any

from hardneg.records.errors import ModelError

_COMPILERS = ("g++", "c++", "clang++", "cl")


def set_compiled(transformer: Any) -> None:
    """Has a transformer compiled at its first pass, once for all lengths.

    Raises:
        ModelError: it computes on a CPU, and there is no compiler of C++.
    """
    if transformer.device.type == "cpu" and not any(map(shutil.which, _COMPILERS)):
        raise ModelError(
            "compile needs a compiler of C++ on a CPU, and none is on the path: install g++, or leave it out"
        )
    transformer.compile(dynamic=True)
