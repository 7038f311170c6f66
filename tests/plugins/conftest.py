"""hardneg's wheel and those of the packages in plugins/, in an environment of their own."""

from collections.abc import Callable

import pytest
from environments import ROOT, environment

PACKAGES = (
    "hardneg-cagra",
    "hardneg-example",
    "hardneg-electra",
    "hardneg-http",
    "hardneg-judge",
    "hardneg-ray",
    "hardneg-reader",
)


@pytest.fixture(scope="session")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., str]:
    """Runs that environment's Python with some arguments, in a folder of its own, and gives what it printed."""
    call = environment(tmp_path_factory.mktemp("outside"), [ROOT / "plugins" / name for name in PACKAGES])
    return lambda *arguments: call("python", *arguments)
