"""The run folder: where a recipe leaves what others go on from, the command that fills it, and what it was made of."""

from pathlib import Path

import yaml

from hardneg.artifacts import Artifact, Store
from hardneg.errors import DataError
from hardneg.layout import LOCK
from hardneg.recipe.inheritance import read_whole_tree
from hardneg.recipe.yaml_load import shipped_recipes


def default_folder(recipe: str, preset: str) -> Path:
    """The run folder of a recipe where none is given."""
    return Path("runs") / "-".join(filter(None, [recipe, preset]))


def maker(place: str) -> str | None:
    """The command that makes what lies at `place`, in a shipped recipe's default run folder; None where none does."""
    parts = Path(place).parts
    for recipe, path in shipped_recipes().items() if len(parts) > 2 else ():
        for preset in read_whole_tree(path).get("presets") or () if parts[1].startswith(recipe) else ():
            if parts[:2] == default_folder(recipe, preset).parts:
                return f"hardneg recipe run {recipe} --preset {preset}"
    return None


def artifacts_of(folder: Path, store: Store) -> dict[str, Artifact]:
    """The artifacts in the store of the steps that `folder` was made of, in the order of its recipe.

    Raises:
        DataError: it is no run folder, or the store has none of its steps.
    """
    path = folder / LOCK
    try:
        keys = yaml.safe_load(path.read_text(encoding="utf-8"))["keys"]
        named = {str(name): str(key) for name, key in keys.items()}
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}): give the folder of a finished recipe") from None
    except (yaml.YAMLError, ValueError, TypeError, KeyError, AttributeError):
        raise DataError(f"{path}: damaged: run the recipe again") from None
    found = {name: artifact for name, key in named.items() if key.isalnum() and (artifact := store.find(key))}
    if not found:
        raise DataError(f"{folder}: none of its steps is in the store {store.root}; name the right one with --store")
    return found
