"""Base classes of stages, with their recipe fields and hooks, and the views and contexts that stages receive."""

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardneg.encoders.open import contract, resolved
from hardneg.encoders.spec import FullSpec, ModelSpec as ModelSpec
from hardneg.fields import SECTION, InputFile, PluginKind, Reference, Trait, marked
from hardneg.formats.collection import StoredCollection as StoredCollection
from hardneg.formats.corpus import Corpus as Corpus
from hardneg.formats.segments import Segments
from hardneg.protocols import Searcher
from hardneg.records import layout, types, wording
from hardneg.report.table import Section
from hardneg.runtime import Progress
from hardneg.store import options_in_key

_FULL = 0.6  # mean length of a document, as a share of the tokens read at most
_TERMS = 120  # terms of a passage in a learned sparse index
FORM_WORDS = {"vectors": "one vector per text", "weights": "term weights", "token-vectors": "one vector per token"}
"""How messages describe each form of encoded text."""
FORMS = {"weights": Trait.WEIGHTS, "token-vectors": Trait.TOKEN_VECTORS}
"""Index traits by the form of the encoded texts; the form `vectors` has no trait."""
_ANOTHER = "use an encode stage whose model has one vector per text"
NOT_ONE_VECTOR: Mapping[str, str] = {
    Trait.TEXTS: _ANOTHER,
    Trait.WEIGHTS: _ANOTHER,
    Trait.TOKEN_VECTORS: _ANOTHER,
    Trait.IMPORTED: "use an encode stage",
}
"""Index traits for which queries cannot be encoded as single vectors, each with advice on what to use instead."""
Facts = Mapping[str, Any]
"""Facts about an artifact: JSON values by name, stored in its manifest."""


@dataclass(frozen=True)
class Row:
    """The estimated size of a stage. items: number of items to process. unit: their plural noun. disk: bytes written.

    splits: number of queries by split, if the stage writes a collection; None means those of its dataset.
    """

    items: int
    unit: str
    disk: int = 0
    splits: Mapping[str, int] | None = None


@dataclass(frozen=True)
class Sizes:
    """The input sizes from which the size of a stage is estimated.

    splits: number of queries by split. model, shape: the recipe's own model and its network's shape. network: the shape
    of the stage's reranker or reader. form: the form of encoded texts. collections: sizes of other inputs, by path.
    """

    documents: int
    splits: Mapping[str, int]
    model: FullSpec
    shape: contract.Shape
    network: contract.Shape = contract.BASE
    form: str = "vectors"
    collections: Mapping[str, "Sizes"] = field(default_factory=dict)

    def queries(self, split: str) -> int:
        """Return the number of queries in a split; if unknown, a tenth of the number of documents."""
        return self.splits.get(split, max(1, self.documents // 10))

    @property
    def dimension(self) -> int:
        width = self.model.projection or self.shape.vector or self.shape.hidden
        return min(width, self.model.truncate_dim or width)

    @property
    def stored(self) -> int:
        """Bytes per encoded document in an index, not counting the document id."""
        tokens = round(_FULL * self.model.document_length)
        by_form = {"weights": _TERMS * 8 + 8, "token-vectors": tokens * self.dimension * 4}
        return by_form.get(self.form, self.dimension * 4)


def encoding(cut: Segments | None, sizes: Sizes) -> Row:
    """Return the estimate for encoding the corpus; `cut`, if set, splits each passage into segments."""
    rows = 1 if cut is None else cut.count
    copies = 2 if sizes.form == "weights" else 1  # the blocks, and the index joined from them
    return Row(sizes.documents, "passages", sizes.documents * rows * (copies * sizes.stored + 20))


def source_of(plugin: object) -> ModelSpec | None:
    """Return the network that a configured plugin loads, or None if the plugin has no `source`."""
    source = getattr(plugin, "source", None)
    return ModelSpec(str(source), getattr(plugin, "revision", None)) if source else None


@dataclass(frozen=True)
class SeededStages:
    """The stages that are copied once per seed.

    copies: the copies' names by stage and seed. trainings: for each stage, the training stages that it depends on.
    """

    copies: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    trainings: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def of(self, name: str) -> str | dict[int, str]:
        """Return the names of a stage's copies by seed if it has several; otherwise its only copy's or its own name."""
        copies = dict(self.copies.get(name, {}))
        return copies if len(copies) > 1 else next(iter(copies.values()), name)

    def share(self, one: str, other: str) -> bool:
        """Return whether two stages depend on a common training stage, such as a warm-up, and therefore on its seed."""
        return bool(self.trainings.get(one, frozenset()) & self.trainings.get(other, frozenset()))


@dataclass(frozen=True)
class RecipeView:
    """A recipe as seen from stage `name`.

    plugins: configured plugins by stage and field. outputs: stages whose artifacts are published as `model` and
    `index`. seeded: the stages that are copied per seed. collection: facts about the collection that the stage reads,
    once known. trail: the stages visited on the way to this one, which `at` does not visit again.
    """

    name: str
    stages: Mapping[str, "StageSpec"]
    plugins: Mapping[tuple[str, str], Any]
    model: ModelSpec
    models: resolved.ResolvedModels = field(default_factory=resolved.ResolvedModels, repr=False, compare=False)
    outputs: Mapping[str, str] = field(default_factory=dict)
    seeded: SeededStages = field(default_factory=SeededStages)
    collection: Facts | None = None
    trail: frozenset[str] = frozenset()

    def at(self, name: str) -> "tuple[StageSpec | None, RecipeView]":
        """Return the stage `name` (None if it is unknown or part of a cycle), and the recipe as seen from it."""
        spec = self.stages.get(name) if name not in self.trail else None
        return spec, replace(self, name=name, trail=self.trail | {self.name})

    def plugin(self, field_name: str) -> Any:
        """Return the plugin configured in a field of the stage; None if it is unset or could not be configured."""
        return self.plugins.get((self.name, field_name))

    def list_length(self, run: str) -> int | None:
        """Return the maximum number of documents per query in a run; None if unknown."""
        spec, view = self.at(run)
        return spec.list_length(view) if isinstance(spec, RunSpec) else None

    def model_of(self, name: str) -> ModelSpec:
        """Return the pretrained model that a stage encodes with or trains; for `start`, the recipe's own model."""
        spec, view = self.at(name)
        return self.model if spec is None else spec.began_with(view)

    def traits(self, name: str) -> Mapping[str, str]:
        """Return the traits of a stage's artifact, each with its stage of origin; empty for an unknown stage."""
        spec, view = self.at(name)
        return {} if spec is None else spec.traits(view)

    def query_model(self, index: str) -> str | None:
        """Return the stage whose model encodes queries for `index`; None if `index` has no model or is not an index."""
        spec, view = self.at(index)
        return spec.query_model(view) if isinstance(spec, IndexSpec) else None

    @property
    def report(self) -> str | None:
        """The report stage whose files get the usual names in a run folder: `report` or else the first one, if any."""
        reports = [name for name, spec in self.stages.items() if spec.artifact_type == "report"]
        return "report" if "report" in reports else next(iter(reports), None)


class StageSpec(BaseModel):
    """The fields of a stage in a recipe, and the hooks that the rest of hardneg calls.

    version: must increase whenever the same spec and inputs give a different result. artifact_type: the type of the
    artifact in `artifact_folder`. also_makes: further types, each with its folder. query_disk: estimated bytes on disk,
    as a fixed number and a number per query of the split. purpose: a phrase printed while the stage runs; like
    `also_makes`, a property if it depends on the fields. resumes: whether a stopped stage continues in its folder;
    otherwise it restarts in an empty one. every_process: whether all processes run the stage. inherits: fields that
    default to the recipe's value. teaches: the plugin field whose network the stage trains; all other networks must
    already be trained. reads_all_seeds: whether the stage reads the copies for all seeds; otherwise it is copied along
    with its inputs. in_blocks: whether its work is divided into blocks, which an engine computes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    dataset: Annotated[str | None, Reference(("collection",))] = Field(
        default=None, description="Stage that provides the collection, instead of the recipe's dataset."
    )

    version: ClassVar[int]
    artifact_type: ClassVar[str]
    artifact_folder: ClassVar[str] = "."
    also_makes: ClassVar[Mapping[str, str]] = {}
    query_disk: ClassVar[tuple[int, int] | None] = None
    needs_dataset: ClassVar[bool] = False
    purpose: ClassVar[str] = ""
    teaches: ClassVar[str] = ""
    resumes: ClassVar[bool] = False
    every_process: ClassVar[bool] = False
    reads_all_seeds: ClassVar[bool] = False
    in_blocks: ClassVar[bool] = False
    inherits: ClassVar[tuple[str, ...]] = ("seed", "title", "segments")
    if TYPE_CHECKING:
        stage: str  # the verb, a field of every stage

    @model_validator(mode="after")
    def _can_have_a_key(self) -> Self:
        if self.dataset is not None and not self.needs_dataset:
            raise ValueError("dataset: this stage reads no dataset; remove it")
        infinite = wording.not_finite(vars(self))
        if lines := [f"{path}: must be a finite number (got {value})" for path, value in infinite]:
            raise ValueError("; ".join(lines))
        return self

    @property
    def parts(self) -> Mapping[str, str]:
        """The folder of each artifact type that this stage writes, and of `section` if reports can show the stage."""
        shown = {} if type(self).sections is StageSpec.sections else {SECTION: "."}
        return {self.artifact_type: self.artifact_folder, **self.also_makes, **shown}

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        """Yield each reference to a stage: its path in this spec, the name of the stage, and the requirements."""
        return ((path, name, mark) for path, mark, name in marked(self, Reference))

    def plugins(self) -> Iterator[tuple[str, str, types.PluginSetting]]:
        """Yield each plugin setting: its field (with the position in a list), the kind of plugin, and the value."""
        return ((path, mark.kind, setting) for path, mark, setting in marked(self, PluginKind))

    def identity(self) -> dict[str, Any]:
        """Return the fields that may change the result, except references, plugins and files (keyed by content).

        A value may also be a function that maps the recipe to a digest of other content, or raises a HardnegError.
        """
        marks, described = Reference | PluginKind | InputFile, type(self).model_fields.items()
        by_content = [name for name, info in described if any(isinstance(each, marks) for each in info.metadata)]
        return options_in_key(self, {"stage", *by_content})

    def completed(self, recipe: RecipeView, written: Mapping[str, Any], notes: list[str]) -> Self:
        """Return the stage with its recipe-dependent defaults filled in; written: the stage's mapping in the recipe.

        Suspicious but valid settings are added to `notes`, one line each: `field: problem; advice`. With
        `reads_all_seeds`, this is called again with `recipe.seeded`, to replace references by the names of copies.
        """
        return self

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Yield the mistakes of this stage in its recipe, one line each: `field: problem; advice`.

        A second call, with `recipe.collection` set, also checks what the stage requires of the collection.
        """
        yield from ()

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """Return the stages of implicit inputs, by input path; by default, the models that references require."""
        models = ((path, recipe.query_model(target)) for path, target, need in self.references() if need.with_model)
        return {f"{path}.model": model for path, model in models if model is not None}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        """Return the artifact's traits, each with its stage of origin; by default, traits that references pass on."""
        passed = ((target, need.passes) for _, target, need in self.references() if need.passes)
        pairs = ((passes, pair) for target, passes in passed for pair in recipe.traits(target).items())
        return {trait: origin for passes, (trait, origin) in pairs if trait in passes}

    def began_with(self, recipe: RecipeView) -> ModelSpec:
        """Return the pretrained model from which the stage's model descends, found by following its first model input.

        Without a model input, it is the stage's own `network` if the stage writes a model, or else the recipe's model.
        """
        named = next((name for _, name, need in self.references() if need.artifact_types == ("model",)), None)
        own = self.network(recipe) if named is None and self.artifact_type == "model" else None
        return own or recipe.model_of(named or layout.START)

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        """Return the network that this stage loads besides the recipe's model, or None; for estimates and lookups.

        By default, it is the source of the first reranker or query writer that has a `source`.
        """
        loaded = (recipe.plugin(path) for path, kind, _ in self.plugins() if kind in ("rerankers", "writers"))
        return next(filter(None, map(source_of, loaded)), None)

    def estimate(self, sizes: Sizes) -> Row:
        """Return a rough estimate: by default, of the split's queries if `query_disk` is set, otherwise of one item."""
        if self.query_disk is None:
            return Row(1, "stage")
        count = sizes.queries(str(vars(self)["split"]))
        return Row(count, "queries", self.query_disk[0] + count * self.query_disk[1])

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        """Map paths in the run folder to artifact paths to publish; a path without a suffix is an optional folder."""
        return {}

    def sections(self, sources: "Mapping[str, ArtifactInput]") -> list[Section]:
        """Return report sections about artifacts of this verb; by default, none. sources: the artifacts by label."""
        return []

    def make(self, context: "StageContext[Self]") -> Any:
        """Write the artifact to the context's folder and return the facts for its manifest.

        With `in_blocks`, the stage only opens its work, in each process, and returns it as `StageBlocks`.
        """
        raise NotImplementedError(f"stage {self.stage} does not implement `make`")


class IndexSpec(StageSpec):
    """Base class of stages that build an index."""

    def query_model(self, recipe: RecipeView) -> str | None:
        """Return the stage whose model encodes queries for the index; None without one, as for text or imports."""
        return None

    def open_index(
        self, source: "ArtifactInput", collection: StoredCollection, options: Any, progress: Progress | None
    ) -> Searcher:
        """Open the index that this stage built in `source`; options: an `ExactOptions`, for exact searchers only."""
        raise NotImplementedError(f"stage {self.stage} does not implement `open_index`")


class RunSpec(StageSpec):
    """Base class of stages that produce a run with at most `depth` documents per query."""

    artifact_type = "run"
    needs_dataset = True

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"runs/{recipe.name}.trec.gz": layout.RUN}

    def list_length(self, recipe: RecipeView) -> int | None:
        """Return the maximum number of documents per query; None if unknown."""
        return None

    def estimate(self, sizes: Sizes) -> Row:
        count = sizes.queries(str(vars(self)["split"]))
        return Row(count, "queries", count * int(vars(self)["depth"]) * 20)


Spec = TypeVar("Spec", bound=StageSpec, covariant=True)


@dataclass(frozen=True)
class ArtifactInput:
    """An artifact that a stage reads.

    path: the artifact's folder; None for the recipe's own model, which `model` describes. spec, plugins: the stage that
    wrote the artifact, and its configured plugins by field. traits: properties for which an input is refused (`Trait`).
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
        """The artifact's folder. Raises ValueError for the recipe's own model."""
        if self.path is None:
            raise ValueError(f"{self.name} is not an artifact")
        return self.path

    def part(self, artifact_type: str) -> Path:
        """Return the artifact's folder for a type, such as `model`; for types that it lacks, the main folder."""
        return self.folder / (self.spec.parts.get(artifact_type, ".") if self.spec is not None else ".")


@dataclass(frozen=True)
class StageContext(Generic[Spec]):
    """The context of a running stage, which reads `inputs`, writes to `folder`, and returns facts for the manifest.

    folder: an empty folder, unless the stage resumes. plugins: configured plugins by field. ran: the command that ran
    the recipe (empty if unknown) and the recipe's model. first: whether this process writes the files that all share.
    """

    name: str
    spec: Spec
    folder: Path
    inputs: Mapping[str, ArtifactInput]
    plugins: Mapping[str, Any]
    progress: Progress
    device: str | None = None
    models: resolved.ResolvedModels = field(default_factory=resolved.ResolvedModels, repr=False, compare=False)
    ran: tuple[str, str] = ("", "")
    first: bool = True

    def inputs_of(self, field_name: str) -> dict[str, ArtifactInput]:
        """Return the inputs of a field that maps labels to stages, by label and in recipe order."""
        prefix = f"{field_name}."
        return {path.removeprefix(prefix): item for path, item in self.inputs.items() if path.startswith(prefix)}

    def keep_only(self, *names: str) -> None:
        """Remove everything except `names` from the folder, for example checkpoints and half-written files."""
        for path in (path for path in self.folder.iterdir() if path.name not in names):
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()


class Engine(Protocol):
    """Interface of engines, which compute the blocks of stages; engines do not affect keys."""

    version: ClassVar[int]

    def make(self, context: StageContext[StageSpec]) -> Facts:
        """Compute the unfinished blocks of a stage exactly as `Local` does, and return the manifest facts."""


@dataclass(frozen=True)
class Local:
    """The local engine: this process and the other processes that torchrun or accelerate started."""

    version: ClassVar[int] = 1

    def make(self, context: StageContext[StageSpec]) -> Facts:
        """Call the stage's `make`, compute and join the blocks if it has any, and return the manifest facts."""
        from hardneg.stages.work import make_blocks

        facts: Facts = make_blocks(context) if context.spec.in_blocks else context.spec.make(context)
        return facts
