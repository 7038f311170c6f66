"""What a finished recipe's run folder leads to: the artifacts of its steps, by their names."""

from pathlib import Path

import yaml

from hardneg.artifacts import Artifact, Store
from hardneg.errors import DataError
from hardneg.layout import LOCK


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
