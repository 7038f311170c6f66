"""What a stage is handed when it runs, and the engine that runs it."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, TypeVar, cast

from hardneg.encoders.open.resolved import ResolvedModels
from hardneg.encoders.spec import ModelSpec
from hardneg.protocols import NegativeFilter
from hardneg.runtime import Progress
from hardneg.stages.shared.stage_spec import StageSpec

Facts = Mapping[str, object]
"""What a manifest tells of an artifact: JSON."""
Spec = TypeVar("Spec", bound=StageSpec, covariant=True)
_Plugin = TypeVar("_Plugin")


@dataclass(frozen=True)
class ArtifactInput:
    """An artifact that a stage reads.

    path: its folder; for the recipe's own model there is none and `model` says what to load. spec: that of the stage
    that made it. plugins: that stage's configured plugins by field. traits: what may be told of it.
    """

    name: str
    key: str
    path: Path | None
    spec: StageSpec | None = None
    model: ModelSpec | None = None
    facts: Facts = field(default_factory=dict)
    plugins: Mapping[str, object] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """The artifact's folder."""
        if self.path is None:
            raise ValueError(f"{self.name} is not an artifact")
        return self.path

    def plugin(self, field_name: str, protocol: Callable[..., _Plugin]) -> _Plugin:
        """The plugin of a field of the stage that made it."""
        return cast(_Plugin, self.plugins[field_name])

    def count(self, fact: str) -> int:
        """A whole number that the manifest tells."""
        return cast(int, self.facts[fact])

    def part(self, artifact_type: str) -> Path:
        """The folder of what it holds of a type, such as the model of a training: the artifact's, or one in it."""
        return self.folder / (self.spec.parts.get(artifact_type, ".") if self.spec is not None else ".")


@dataclass(frozen=True)
class StageContext(Generic[Spec]):
    """One stage at work: it reads `inputs`, writes into `folder`, and returns facts for the manifest.

    folder: empty, or, for a stage that resumes, with what a stopped run left. plugins: configured, by field.
    """

    name: str
    spec: Spec
    folder: Path
    inputs: Mapping[str, ArtifactInput]
    plugins: Mapping[str, object]
    progress: Progress
    device: str | None = None
    models: ResolvedModels = field(default_factory=ResolvedModels, repr=False, compare=False)

    def plugin(self, field_name: str, protocol: Callable[..., _Plugin]) -> _Plugin:
        """The configured plugin of a field; the recipe's check has seen that it is of the field's kind."""
        return cast(_Plugin, self.plugins[field_name])

    def filters(self) -> list[NegativeFilter]:
        """The configured plugins of the field `filters`, in its order."""
        return [cast(NegativeFilter, plugin) for path, plugin in self.plugins.items() if path.startswith("filters.")]

    def inputs_of(self, field_name: str) -> dict[str, ArtifactInput]:
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


class Engine(Protocol):
    """Where the blocks of a stage are made (`hardneg.engines`); it is never part of a key."""

    version: ClassVar[int]

    def make(self, context: StageContext[StageSpec]) -> Mapping[str, Any]:
        """Makes a stage that has blocks (`StageSpec.blocks`) in the context's folder: the bytes of its own `make`.

        Returns what the manifest tells. Blocks that are finished already are not made again.
        """


@dataclass(frozen=True)
class Local:
    """Makes a stage in this process, and in those that torchrun or accelerate started with it."""

    version: ClassVar[int] = 1

    def make(self, context: StageContext[StageSpec]) -> Mapping[str, Any]:
        """The stage's own way."""
        return context.spec.make(context)
