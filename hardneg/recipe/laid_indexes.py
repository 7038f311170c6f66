"""The indexes of a run folder: where each is, how it was built, and the model that encodes its queries."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.encoders.open.resolved import read_spec
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import Trait
from hardneg.recipe.load import Recipe, check_recipe
from hardneg.recipe.run_folder import read_lock
from hardneg.records.layout import INDEX_FOLDER, LOCK, MODEL_FOLDER, START
from hardneg.store.artifacts import Artifact, Store


@dataclass(frozen=True)
class LaidIndex:
    """An index of a finished recipe.

    stage: the one that made it. backend: its plugin, None where an encode stage made it. model: what encodes its
    queries, None where it is searched with texts, or with vectors of another program. segments: whether documents have
    several vectors.
    """

    stage: str
    folder: Path
    backend: Any
    model: ModelSpec | None
    segments: bool


def laid_indexes(folder: Path, store: Store) -> list[LaidIndex]:
    """The indexes of a run folder: the one that the recipe hands out, then those of which the store has the artifacts.

    Raises:
        DataError: it is no run folder, or its lock file is damaged.
        RecipeError: the recipe is not one of this hardneg's.
    """
    lock = read_lock(folder)
    recipe = check_recipe(lock["tree"], folder / LOCK, lock["preset"])
    named = lock["keys"].items()
    artifacts = {name: artifact for name, key in named if key.isalnum() and (artifact := store.find(key))}
    indexes = dict(_indexes(recipe, folder, artifacts))
    first = recipe.outputs.get("index", "")
    return [indexes[name] for name in sorted(indexes, key=lambda name: name != first)]


def _indexes(recipe: Recipe, folder: Path, artifacts: Mapping[str, Artifact]) -> Iterator[tuple[str, LaidIndex]]:
    for name, spec in recipe.stages.items():
        index_folder = laid_part(recipe, folder, artifacts, name, INDEX_FOLDER) if "index" in spec.makes else None
        if index_folder is None:
            continue
        view = recipe.view(name)
        maker, model = view.query_model(name), None
        if maker == START:
            model = recipe.model
        elif maker and (model_folder := laid_part(recipe, folder, artifacts, maker, MODEL_FOLDER)):
            model = read_spec(model_folder)
        yield name, LaidIndex(name, index_folder, view.plugin("backend"), model, Trait.SEGMENTS in spec.traits(view))


def laid_part(recipe: Recipe, folder: Path, artifacts: Mapping[str, Artifact], name: str, output: str) -> Path | None:
    """Where a model or an index that a stage makes is: in the run folder, or in the store; None where in neither."""
    if recipe.outputs.get(output) == name and (folder / output).is_dir():
        return folder / output
    inner = recipe.stages[name].parts.get(output, ".")
    return artifacts[name].path / inner if name in artifacts else None
