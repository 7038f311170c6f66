"""The base of every stage: the model that a recipe's mapping is checked by, what the stage tells, and its context."""

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hardneg.encoders.open import contract, resolved
from hardneg.encoders.spec import FullSpec, ModelSpec
from hardneg.fields import SECTION, InputFile, PluginKind, Reference, Trait, marked_fields, marked_references
from hardneg.formats.collection import StoredCollection
from hardneg.formats.segments import Segments
from hardneg.protocols import Searcher
from hardneg.records import layout, types, wording
from hardneg.report.table import Section
from hardneg.runtime import Progress
from hardneg.store import options_in_key

_FULL = 0.6  # of the tokens of a document that are read at most, those that it has in the mean
_TERMS = 120  # what a learned sparse encoder keeps of a passage
FORM_WORDS = {"vectors": "one vector a text", "weights": "weights of terms", "token-vectors": "a vector a token"}
"""The form of what encoders make, in words."""
FORMS = {"weights": Trait.WEIGHTS, "token-vectors": Trait.TOKEN_VECTORS}
"""Trait of an encoded artifact by the form of its texts; none for single vectors."""
_ANOTHER = "name an encode stage of a model with one vector a text"
NOT_ONE_VECTOR: Mapping[str, str] = {
    Trait.TEXTS: _ANOTHER,
    Trait.WEIGHTS: _ANOTHER,
    Trait.TOKEN_VECTORS: _ANOTHER,
    Trait.IMPORTED: "no model is known that would encode the queries: name an encode stage",
}
"""Traits that an index must not have whose model encodes the queries, each with what to do instead."""
Facts = Mapping[str, Any]
"""Facts of an artifact in its manifest: JSON."""


@dataclass(frozen=True)
class Row:
    """A stage's estimate: how many items of `unit` there are to go through, and bytes of disk."""

    items: int
    unit: str
    disk: int = 0


@dataclass(frozen=True)
class Sizes:
    """The sizes that a stage's estimate is made from.

    splits: queries by split. model, shape: of the recipe's own model. network: that of the reranker or reader which the
    stage has or uses. form: what the model makes of a text. collections: those that the stage reads, by the paths of
    its inputs.
    """

    documents: int
    splits: Mapping[str, int]
    model: FullSpec
    shape: contract.Shape
    network: contract.Shape = contract.BASE
    form: str = "vectors"
    collections: Mapping[str, "Sizes"] = field(default_factory=dict)

    def queries(self, split: str) -> int:
        """How many queries a split has; a tenth of the documents where nothing says it."""
        return self.splits.get(split, max(1, self.documents // 10))

    @property
    def dimension(self) -> int:
        width = self.model.projection or self.shape.vector or self.shape.hidden
        return min(width, self.model.truncate_dim or width)

    @property
    def stored(self) -> int:
        """Bytes that a text of a document takes in an index, its id left out."""
        tokens = round(_FULL * self.model.document_length)
        by_form = {"weights": _TERMS * 8 + 8, "token-vectors": tokens * self.dimension * 4}
        return by_form.get(self.form, self.dimension * 4)


def encoding(cut: Segments | None, sizes: Sizes) -> Row:
    """Estimate what it takes to encode the corpus."""
    rows = 1 if cut is None else cut.count
    copies = 2 if sizes.form == "weights" else 1  # blocks, and what they are put together to
    return Row(sizes.documents, "passages", sizes.documents * rows * (copies * sizes.stored + 20))


def source_of(plugin: object) -> ModelSpec | None:
    """The network that a configured plugin starts from, if it says one."""
    source = getattr(plugin, "source", None)
    return ModelSpec(str(source), getattr(plugin, "revision", None)) if source else None


@dataclass(frozen=True)
class RecipeView:
    """A recipe as its stage `name` sees it.

    plugins: all that could be configured, by stage and field. models: those that were resolved. trail: the
    stages through which it was asked.
    """

    name: str
    stages: Mapping[str, "StageSpec"]
    plugins: Mapping[tuple[str, str], object]
    model: ModelSpec
    models: resolved.ResolvedModels = field(default_factory=resolved.ResolvedModels, repr=False, compare=False)
    trail: frozenset[str] = frozenset()

    def at(self, name: str) -> "RecipeView":
        """The same recipe as another of its stages sees it."""
        return replace(self, name=name, trail=self.trail | {self.name})

    def plugin(self, field_name: str) -> Any:
        """The stage's configured plugin; None where it could not be configured."""
        return self.plugins.get((self.name, field_name))

    def list_length(self, run: str) -> int | None:
        """The most documents that a run has of a query; None where its stage does not tell."""
        stage = self._stage(run)
        return stage.list_length(self.at(run)) if isinstance(stage, RunSpec) else None

    def model_of(self, name: str) -> ModelSpec:
        """The model that a stage brings in or trains from; the recipe's own for `start`."""
        stage = self._stage(name)
        return self.model if stage is None else stage.began_with(self.at(name))

    def traits(self, name: str) -> Mapping[str, str]:
        """The traits of what a stage makes, each with the stage that it comes from; none where there is no such."""
        stage = self._stage(name)
        return {} if stage is None else stage.traits(self.at(name))

    def query_model(self, index: str) -> str | None:
        """The stage whose model encodes the queries of an index; None where it is searched with texts."""
        stage = self._stage(index)
        return stage.query_model(self.at(index)) if isinstance(stage, IndexSpec) else None

    def _stage(self, name: str) -> "StageSpec | None":
        return self.stages.get(name) if name not in self.trail else None

    @property
    def report(self) -> str | None:
        """The report that a run's folder has under the usual names: stage `report`, or else the first one."""
        reports = [name for name, spec in self.stages.items() if spec.artifact_type == "report"]
        return "report" if "report" in reports else next(iter(reports), None)


def _stage_or_seeds(value: Any) -> Any:
    if isinstance(value, str) and value:
        return value
    seeds = {str(seed): name for seed, name in value.items()} if isinstance(value, Mapping) else {}
    if len(seeds) > 1 and all(seed.isdecimal() and isinstance(name, str) and name for seed, name in seeds.items()):
        return {int(seed): name for seed, name in seeds.items()}
    raise ValueError("must name a stage, or map two seeds or more to a stage each")


BySeed = Annotated[str | dict[int, str], BeforeValidator(_stage_or_seeds)]
"""A stage's name, or the names of those that made the same with other seeds, by seed."""


def by_label(named: Mapping[str, str | Mapping[int, str]]) -> dict[str, tuple[str, int | None]]:
    """The paths below a field of such names, each with its label, and its seed where there are several."""
    paths = dict[str, tuple[str, int | None]]()
    for label, names in named.items():
        for seed in [None] if isinstance(names, str) else names:
            paths[label if seed is None else f"{label}.{seed}"] = label, seed
    return paths


@dataclass(frozen=True)
class SeededStages:
    """The stages that are made once a seed.

    copies: of each, its names by seed. trainings: of each, the stages whose seeds decide what it makes.
    """

    copies: Mapping[str, Mapping[int, str]]
    trainings: Mapping[str, frozenset[str]]

    def of(self, name: str) -> str | dict[int, str]:
        """What stands for a stage where it was named: itself, the one copy of it, or all copies by their seeds."""
        copies = dict(self.copies.get(name, {}))
        return copies if len(copies) > 1 else next(iter(copies.values()), name)

    def share(self, one: str, other: str) -> bool:
        """Whether two stages with the same seed share one draw, such as that of a warm-up of both."""
        return bool(self.trainings.get(one, frozenset()) & self.trainings.get(other, frozenset()))


class StageSpec(BaseModel):
    """The fields of a stage's mapping in a recipe, and the hooks by which the rest asks it.

    version: raised when the same spec and inputs give another result. artifact_type: what the stage makes, in
    `artifact_folder` of its artifact. query_disk: bytes that it makes of all, and of each query of its split, where
    that is all of its estimate. purpose: what it does and why, in plain words that a run prints beside it. resumes: it
    goes on from what a stopped run left in its folder; the others find it empty. every_process: several processes run
    it together. inherits: fields that have the recipe's value where the stage does not say it. teaches: the field of
    the plugin whose network it trains; other networks must have been trained.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: Annotated[str | None, Reference(("collection",))] = Field(
        default=None, description="A stage that makes a collection, read in place of the recipe's dataset."
    )

    version: ClassVar[int]
    artifact_type: ClassVar[str]
    artifact_folder: ClassVar[str] = "."
    query_disk: ClassVar[tuple[int, int] | None] = None
    needs_dataset: ClassVar[bool] = False
    purpose: ClassVar[str] = ""
    teaches: ClassVar[str] = ""
    resumes: ClassVar[bool] = False
    every_process: ClassVar[bool] = False
    inherits: ClassVar[tuple[str, ...]] = ("seed", "title", "segments")

    @model_validator(mode="after")
    def _can_have_a_key(self) -> Self:
        """Refuses a dataset that is not read, and endless numbers, of which no key can be made."""
        if self.dataset is not None and not self.needs_dataset:
            raise ValueError("dataset: this stage reads none; leave it out")
        endless = wording.not_finite(vars(self))
        if lines := [f"{path}: must be a finite number (got {value})" for path, value in endless]:
            raise ValueError("; ".join(lines))
        return self

    @property
    def verb(self) -> str:
        return str(self.stage)  # type: ignore[attr-defined]

    def why(self) -> str:
        """The words that a run prints beside the stage; empty where its verb has no purpose."""
        return self.purpose

    @property
    def parts(self) -> Mapping[str, str]:
        """The types of artifact that a reference to this stage may ask for, and the folder of each in its artifact."""
        return {self.artifact_type: self.artifact_folder}

    @property
    def makes(self) -> tuple[str, ...]:
        """What a reference to this stage may ask for: its parts, and a section where its verb has one for a report."""
        shown = type(self).sections is not StageSpec.sections
        return (*self.parts, *((SECTION,) if shown else ()))

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Every reference: its path in this spec, the stage it names, and what it needs."""
        return marked_references(self)

    def plugins(self) -> Iterator[tuple[str, str, types.PluginSetting]]:
        """Every plugin setting: its field, in a list with its place there, its kind, its value."""
        for name, mark, value in marked_fields(self, PluginKind):
            if isinstance(value, tuple):
                yield from ((f"{name}.{number}", mark.kind, each) for number, each in enumerate(value))
            elif value is not None:
                yield name, mark.kind, value

    def identity(self) -> dict[str, Any]:
        """The fields that may change the result; references, plugins and files count by their content, not here."""
        by_content = [name for mark in (Reference, PluginKind, InputFile) for name, _, _ in marked_fields(self, mark)]
        return options_in_key(self, {"stage", *by_content})

    def content(self, recipe: RecipeView) -> Mapping[str, Callable[[], str]]:
        """What else counts: by its name in the key, what finds its digest, or raises a HardnegError."""
        return {}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """What is wrong with this stage beside the others: `field: what; what to do`, one line each."""
        yield from ()

    def remarks(self, recipe: RecipeView) -> Iterator[str]:
        """What may surprise where nothing is wrong: `field: what; what to do`, one line each."""
        yield from ()

    def missing(self, collection: Facts) -> Iterator[str]:
        """What this stage asks of the collection in vain, one line each; `collection` is what stage `dataset` told."""
        yield from ()

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """Inputs that need not be written: the stage of each by its path; here the models of references that ask."""
        models = ((path, recipe.query_model(target)) for path, target, need in self.references() if need.with_model)
        return {f"{path}.model": model for path, model in models if model is not None}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """What may be told of the artifact, each with the stage it comes from: here what references pass on."""
        passed = ((target, need.passes) for _, target, need in self.references() if need.passes)
        pairs = ((passes, pair) for target, passes in passed for pair in recipe.traits(target).items())
        return {trait: origin for passes, (trait, origin) in pairs if trait in passes}

    def over_seeds(self, seeds: SeededStages) -> Self:
        """For verbs that read what others make with all seeds: the same stage, naming all of it."""
        return self

    def handing_out(self, outputs: Mapping[str, str], recipe: RecipeView) -> Self:
        """For verbs that are about what the recipe hands out: the same stage, knowing it."""
        return self

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        """The model that this one encodes with or trains from, as it was before any training: here the recipe's own."""
        return recipe.model

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        """The network that this stage brings beside the recipe's model, for estimates and to be looked up."""
        return None

    def estimate(self, sizes: Sizes) -> Row:
        """What the stage will take, roughly: here by `query_disk`."""
        if self.query_disk is None:
            return Row(1, "stage")
        count = sizes.queries(str(vars(self)["split"]))
        return Row(count, "queries", self.query_disk[0] + count * self.query_disk[1])

    def collection_sizes(self, sizes: Sizes) -> Sizes:
        """Of a verb that makes a collection: what this has, by the sizes of the one that it reads; roughly."""
        return sizes

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """Place in the run folder to a file of the artifact, or to a folder, which has no suffix and may be missing."""
        return {}

    def sections(self, sources: "Mapping[str, ArtifactInput]") -> list[Section]:
        """The sections of a report on artifacts of this verb, by label."""
        return []

    def settings(self, source: "ArtifactInput") -> Mapping[str, object]:
        """What a report says of how an artifact of this stage was made, name by name."""
        return {}

    def make(self, context: "StageContext[Self]") -> Facts:
        """Makes the artifact in the context's folder, here in blocks; returns what its manifest tells."""
        from hardneg.stages.blocks import make_blocks

        return make_blocks(context)

    def blocks(self, context: "StageContext[Self]", first: bool = True) -> Any:
        """The work in `StageBlocks`, as one of several processes opens it; the first writes what all of them read."""
        raise NotImplementedError(f"stage {self.verb} makes nothing")


class IndexSpec(StageSpec):
    """The base of stages that make an index."""

    def query_model(self, recipe: RecipeView) -> str | None:
        """The stage whose model encodes its queries; None where it is searched with texts."""
        return None

    def open_index(
        self, source: "ArtifactInput", collection: StoredCollection, options: Any, progress: Progress | None
    ) -> Searcher:
        """The searcher of the index that this stage made; options: `ExactOptions`."""
        raise NotImplementedError(f"stage {self.verb} opens no index")


class RunSpec(StageSpec):
    """The base of stages that make a run, of lists as long as their `depth` at most."""

    artifact_type = "run"
    needs_dataset = True

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"runs/{recipe.name}.trec.gz": layout.RUN}

    def list_length(self, recipe: RecipeView) -> int | None:
        """The most documents that it has of a query; None where it is not told."""
        return None

    def estimate(self, sizes: Sizes) -> Row:
        count = sizes.queries(str(vars(self)["split"]))
        return Row(count, "queries", count * int(vars(self)["depth"]) * 20)


Spec = TypeVar("Spec", bound=StageSpec, covariant=True)


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
    plugins: Mapping[str, Any] = field(default_factory=dict)
    traits: frozenset[str] = frozenset()

    @property
    def folder(self) -> Path:
        """The artifact's folder."""
        if self.path is None:
            raise ValueError(f"{self.name} is not an artifact")
        return self.path

    def part(self, artifact_type: str) -> Path:
        """The folder of what it holds of a type, such as the model of a training: the artifact's, or one in it."""
        return self.folder / (self.spec.parts.get(artifact_type, ".") if self.spec is not None else ".")


@dataclass(frozen=True)
class StageContext(Generic[Spec]):
    """One stage at work: it reads `inputs`, writes into `folder`, and returns facts for the manifest.

    folder: empty, or, for a stage that resumes, with what a stopped run left. plugins: configured, by field, each of
    the field's kind.
    """

    name: str
    spec: Spec
    folder: Path
    inputs: Mapping[str, ArtifactInput]
    plugins: Mapping[str, Any]
    progress: Progress
    device: str | None = None
    models: resolved.ResolvedModels = field(default_factory=resolved.ResolvedModels, repr=False, compare=False)

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
    """The place where the blocks of a stage are made (`hardneg.engines`); it is never part of a key."""

    version: ClassVar[int]

    def make(self, context: StageContext[StageSpec]) -> Facts:
        """Makes a stage that has blocks (`StageSpec.blocks`) in the context's folder: the bytes of its own `make`.

        Returns what the manifest tells. Blocks that are finished already are not made again.
        """


@dataclass(frozen=True)
class Local:
    """Makes a stage in this process, and in those that torchrun or accelerate started with it."""

    version: ClassVar[int] = 1

    def make(self, context: StageContext[StageSpec]) -> Facts:
        """The stage's own way."""
        return context.spec.make(context)
