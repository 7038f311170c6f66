"""What the estimates of a plan are made from: the dataset's counts, and the shapes of the models."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from hardneg.artifacts import Store
from hardneg.datasets.held_out import UNLABELLED
from hardneg.errors import HardnegError
from hardneg.models.contract import known
from hardneg.models.lengths import USUAL
from hardneg.models.source import locate
from hardneg.models.spec import KINDS, FullSpec, ModelSpec
from hardneg.models.weights import weight_files
from hardneg.protocols import HintsQueries
from hardneg.recipe.plan import Plan, Step, cached
from hardneg.stages.reading_spec import TrainReaderSpec
from hardneg.stages.spec_parts import DATASET
from hardneg.stages.specs import DatasetSpec

_TRAIN = "train"
_VOCABULARY = 30_522


@dataclass(frozen=True)
class Shape:
    """What decides a model's cost: hidden size, layers, and the bytes of its weights."""

    hidden: int = 768
    layers: int = 12
    weights: int = 440_000_000

    @property
    def operations_a_token(self) -> float:
        """Multiplications and additions of one forward pass, by token."""
        return 2.0 * 12 * self.layers * self.hidden**2

    def kept_a_token(self, length: int, checkpointing: bool = False) -> int:
        """Bytes that training keeps of one token until its gradient: layers, and attention to so many tokens.

        checkpointing: only what goes into each layer is kept, and one layer at a time as a whole.
        """
        layer = 60 * self.hidden + 3 * 4 * max(12, self.hidden // 64) * length
        return self.layers * 4 * self.hidden + layer if checkpointing else self.layers * layer

    @property
    def embeddings(self) -> int:
        """Bytes of the word embeddings of a vocabulary of usual size."""
        return _VOCABULARY * self.hidden * 4


LARGE = Shape(1024, 24, 1_340_000_000)


@dataclass(frozen=True)
class Magnitudes:
    """Counts of documents and of queries by split; the recipe's model, and other networks by the step that has one."""

    documents: int
    splits: Mapping[str, int]
    model: FullSpec
    shape: Shape
    networks: Mapping[str, Shape]

    def queries(self, split: str) -> int:
        """How many queries a split has; a tenth of the documents where nothing says it."""
        return self.splits.get(split, max(1, self.documents // 10))

    @property
    def dimension(self) -> int:
        """That of the vectors."""
        return min(self.model.projection or self.shape.hidden, self.model.truncate_dim or self.shape.hidden)

    def network(self, step: Step) -> Shape:
        """The shape of the reranker or reader that a step trains or uses."""
        brings = step.inputs.get("reranker") or step.inputs.get("reader") or step.name
        return self.networks.get(brings, Shape())


def magnitudes(plan: Plan, store: Store) -> Magnitudes:
    """Counts from the store, or else from the recipe or the loader; shapes from the models' configurations."""
    step, model = plan.steps[DATASET], _usual(plan.recipe.model)
    shapes = {name: model_shape(spec) for name, spec in networks(plan)}
    shape = model_shape(plan.recipe.model)
    if artifact := cached(step, store):
        facts = artifact.facts
        splits = {name: int(counts["queries"]) for name, counts in facts["splits"].items()}
        return Magnitudes(int(facts["documents"]), splits, model, shape, shapes)
    sizes, loader = plan.recipe.sizes, step.plugins["loader"]
    documents = sizes.documents or loader.size_hint()
    hinted = loader.query_hint() if isinstance(loader, HintsQueries) and not sizes.documents else {}
    said = Magnitudes(documents, {**hinted, **sizes.queries}, model, shape, shapes)
    return replace(said, splits=_shared(said, step))


def _usual(spec: ModelSpec) -> FullSpec:
    """The spec in full for estimates: texts are seldom longer than what models usually read, whatever they could."""
    full = known(spec)
    stated = {name: value for name, value in asdict(spec).items() if value is not None}
    if full is None:
        return FullSpec(**stated)
    own = {f"{kind}_length": min(full.length(kind), USUAL) for kind in KINDS}
    return replace(full, **own | {name: value for name, value in stated.items() if name in own})


def _shared(said: Magnitudes, step: Step) -> Mapping[str, int]:
    """The queries by split; where labels are withheld, the unlabelled queries are no longer of split `train`."""
    assert isinstance(step.spec, DatasetSpec)
    share = step.spec.withheld.unlabelled if step.spec.withheld else 0.0
    unlabelled = round(said.queries(_TRAIN) * share)
    return {**said.splits, _TRAIN: said.queries(_TRAIN) - unlabelled, UNLABELLED: unlabelled} if share else said.splits


def model_shape(spec: ModelSpec) -> Shape:
    """A model's shape from its configuration; where that is not at hand, a large or a base one's by its name."""
    unseen = LARGE if "large" in spec.name.lower() else Shape()
    try:
        folder = locate(spec)
    except HardnegError:
        return unseen
    if not isinstance(folder, Path):
        return unseen
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        weights = sum(path.stat().st_size for path in weight_files(folder))
    except (OSError, ValueError, HardnegError):
        return unseen
    return Shape(int(config.get("hidden_size", 768)), int(config.get("num_hidden_layers", 12)), weights)


def networks(plan: Plan) -> Iterator[tuple[str, ModelSpec]]:
    """The networks beside the recipe's model, readers and rerankers, by the step that has one."""
    for name, step in plan.steps.items():
        if isinstance(step.spec, TrainReaderSpec):
            yield name, step.spec.reader.start
        reranker = step.plugins.get("reranker", step.plugins.get("plugin"))
        if source := getattr(reranker, "source", None):
            yield name, ModelSpec(str(source), getattr(reranker, "revision", None))
