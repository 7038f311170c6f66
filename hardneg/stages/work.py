"""What a stage is handed when it runs."""

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hardneg.models.spec import ModelSpec
from hardneg.progress import Progress
from hardneg.stages.spec_parts import StageSpec


@dataclass(frozen=True)
class Input:
    """An artifact that a stage reads.

    path: its folder; for the recipe's own model there is none and `model` says what to load. spec: that of the stage
    that made it. plugins: that stage's configured plugins by field.
    """

    name: str
    key: str
    path: Path | None
    spec: StageSpec | None = None
    model: ModelSpec | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    plugins: Mapping[str, Any] = field(default_factory=dict)

    @property
    def folder(self) -> Path:
        """The artifact's folder."""
        if self.path is None:
            raise ValueError(f"{self.name} is not an artifact")
        return self.path


@dataclass(frozen=True)
class Work:
    """One stage at work: it reads `inputs`, writes into `folder`, and returns facts for the manifest.

    folder: empty, or, for a stage that resumes, with what a stopped run left. plugins: configured, by field.
    """

    name: str
    spec: Any
    folder: Path
    inputs: Mapping[str, Input]
    plugins: Mapping[str, Any]
    progress: Progress
    device: str | None = None

    def inputs_of(self, field_name: str) -> dict[str, Input]:
        """The inputs of a mapping of references, by label, in the order of the recipe."""
        prefix = f"{field_name}."
        return {path.removeprefix(prefix): item for path, item in self.inputs.items() if path.startswith(prefix)}

    def keep_only(self, *names: str) -> None:
        """Removes from the folder all but these: checkpoints, and files that a killed process was writing."""
        empty(self.folder, keep=names)


def empty(folder: Path, keep: Sequence[str] = ()) -> None:
    """Removes all in `folder` but the names to keep."""
    for path in folder.iterdir():
        if path.name in keep:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
