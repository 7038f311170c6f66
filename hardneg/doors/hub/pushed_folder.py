"""The folder that is pushed, with its artifact and manifest."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hardneg.doors.hub.cards import listed
from hardneg.recipe.private_paths import without_paths
from hardneg.records.layout import INDEX_FOLDER, MODEL_FOLDER
from hardneg.store.artifacts import MANIFEST, Artifact, Store


@dataclass(frozen=True)
class PushedFolder:
    """folder: of the model, the index or the negatives. part: its path in the artifact, which is None if unknown."""

    folder: Path
    artifact: Artifact | None = None
    part: str = "."

    @classmethod
    def at(cls, path: Path) -> "PushedFolder":
        """Open a path: an artifact of a store, its model or index, its file; or a folder of no store.

        Raises:
            ArtifactError: the artifact is damaged.
        """
        if (path / MANIFEST).is_file():
            parts = [name for name in (MODEL_FOLDER, INDEX_FOLDER) if (path / name).is_dir()]
            return cls(path.joinpath(*parts[:1]), _artifact(path), parts[0] if parts else ".")
        if (path.parent / MANIFEST).is_file():
            return cls(path, _artifact(path.parent), path.name if path.is_dir() else ".")
        return cls(path)

    @property
    def origin_paragraphs(self) -> list[str]:
        """Paragraphs of a card from the manifest; none without one."""
        if self.artifact is None:
            return []
        origin: dict[str, Any] = without_paths(self.artifact.origin)
        plugins = {
            field.capitalize(): f"`{plugin['name']}` with `{json.dumps(plugin.get('options', {}))}`"
            for field, plugin in dict(origin.get("plugins", {})).items()
        }
        keys = {f"Key of {name}": f"`{key}`" for name, key in dict(origin.get("inputs", {})).items()}
        facts = {"Stage": f"`{origin.get('stage', '')}`", **plugins, **keys, "Key": f"`{self.artifact.key}`"}
        return ["## How it was made", listed(facts)]


def _artifact(folder: Path) -> Artifact | None:
    return Store(folder.parent).find(folder.name)
