"""The package of the engine `ray`, as a stranger installs it beside hardneg's wheel."""

from collections.abc import Callable

import pytest


@pytest.mark.slow
def test_ray_is_listed_and_shows_its_options(outside: Callable[..., str]) -> None:
    assert "hardneg-ray" in outside("-m", "hardneg", "plugins", "list", "engines")
    assert "num_cpus: float | None = None" in outside("-m", "hardneg", "plugins", "show", "engine", "ray")
    program = "import sys, hardneg_ray.engine; print({'ray', 'torch', 'numpy'} & set(sys.modules))"
    assert outside("-c", program) == "set()\n"
