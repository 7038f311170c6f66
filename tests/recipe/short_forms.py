"""Recipes with short forms, expanded."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from hardneg.recipe.language import Expanded, expand
from hardneg.recipe.load import load_recipe
from hardneg.records.errors import RecipeError

HEAD = "dataset: pydocs\nmodel: packaged:all-MiniLM-L6-v2\n"


def expanded(folder: Path, text: str, preset: str | None = None, settings: tuple[str, ...] = ()) -> Expanded:
    path = folder / "r.yaml"
    path.write_text(HEAD + text)
    return expand(path, preset, settings)


def stages(folder: Path, text: str, preset: str | None = None, settings: tuple[str, ...] = ()) -> dict[str, Any]:
    found = expanded(folder, text, preset, settings)
    assert found.problems == []
    return found.tree["stages"]


def problems(folder: Path, text: str, preset: str | None = None, settings: tuple[str, ...] = ()) -> list[str]:
    path = folder / "r.yaml"
    path.write_text(HEAD + text)
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, preset, settings)
    return list(caught.value.problems)


def written(text: str) -> dict[str, Any]:
    return yaml.safe_load(text)
