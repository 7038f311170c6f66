"""The example package, as a stranger installs it beside hardneg's wheel in an environment of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest
from recipe.recipes import small_collection, small_tree, write_recipe

TESTS = Path(__file__).parents[2] / "plugins" / "hardneg-example" / "tests"


@pytest.mark.slow
def test_an_outside_package_from_installation_to_recipe(
    tmp_path: Path, tiny_model: Path, outside: Callable[..., str]
) -> None:
    assert " passed" in outside("-m", "pytest", "-q", "-p", "no:cacheprovider", "--import-mode=importlib", TESTS)
    assert "simans" in outside("-m", "hardneg", "plugins", "list", "miners")
    assert "sharpness: float = 1.0" in outside("-m", "hardneg", "plugins", "show", "miners", "simans")
    tree = small_tree(small_collection(tmp_path / "data"), tiny_model)
    tree["stages"]["static"]["miner"] = {"name": "simans", "count": 5, "sharpness": 20.0}
    recipe = write_recipe(tmp_path / "small.yaml", tree)
    outside(
        "-m", "hardneg", "recipe", "run", recipe, "--until", "static", "--output", tmp_path / "out", "--device", "cpu"
    )
    assert "negatives" in outside("-m", "hardneg", "artifacts", "list")
