"""Verb `train-reranker`: a cross-encoder trained on mined negatives, judged on the dev queries while it trains."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, with_config

from hardneg.artifacts import KEPT, SCRATCH
from hardneg.counting import counted
from hardneg.data.collection import StoredCollection
from hardneg.distributed import world
from hardneg.errors import UsageError
from hardneg.fields import Loss, Name, PluginKind, Reference, Setting, without_problems
from hardneg.layout import MODEL_FOLDER
from hardneg.models.spec import ModelSpec
from hardneg.stages.context import StageContext
from hardneg.stages.spec import RecipeView, source_of
from hardneg.stages.training_common import TrainingSpec, examples_of, validation_data
from hardneg.training.history import HISTORY
from hardneg.training.options import RerankerOptions
from hardneg.types import PluginSetting

if TYPE_CHECKING:
    from hardneg.rerankers.network import PairNetwork
    from hardneg.training.loop import TrainingResult


with_config(ConfigDict(extra="forbid"))(RerankerOptions)


class TrainReranker(TrainingSpec):
    """Trains a reranker on mined negatives, each query's documents against each other.

    start: the stage whose weights it goes on from, of the same plugin; by default the plugin's source.
    validation: how many dev queries, and how many documents of `validation_run` for each (`depth`).
    """

    version = 1
    every_process = True
    kind = "reranker"
    stage: Literal["train-reranker"]
    reranker: Annotated[Setting, PluginKind("rerankers")]
    start: Annotated[Name | None, Reference(("reranker",))] = None
    negatives: Annotated[Name, Reference(("negatives",))]
    loss: Loss = PluginSetting("bce")
    options: Annotated[RerankerOptions, AfterValidator(without_problems)] = Field(default_factory=RerankerOptions)

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        """What the plugin starts from, where it says it."""
        return source_of(recipe.plugin("reranker"))

    @property
    def parts(self) -> Mapping[str, str]:
        """A reranker, in a folder of its own."""
        return {"reranker": MODEL_FOLDER}


def run(work: StageContext[Any]) -> dict[str, Any]:
    """Trains, saves the network with its card, and leaves the learning curve beside it."""
    from hardneg.rerankers.network import PairNetwork, reranker_card
    from hardneg.rerankers.scoring import best_device
    from hardneg.stages.inputs import open_collection
    from hardneg.training.loop import learn
    from hardneg.training.methods.reranker import RerankerTraining

    collection, spec = open_collection(work.inputs["dataset"]), work.spec
    network = PairNetwork(work.plugins["reranker"].load(_start(work)).to(work.device or best_device()))
    _check_outputs(work, network)
    data = examples_of(collection, work.inputs["negatives"])
    result = learn(
        RerankerTraining(network, data, work.plugins["loss"], spec.options),
        work.plugins["loss"],
        spec.options,
        work.folder,
        progress=work.progress,
        validate=_validation(work, collection, network),
    )
    if not world().first:
        return {}
    network.save(work.folder / MODEL_FOLDER, reranker_card(network, _said(work, collection, result)))
    work.keep_only(MODEL_FOLDER, KEPT, HISTORY, SCRATCH)
    return result.facts(spec.options.metric)


def _start(work: StageContext[Any]) -> Path | None:
    """The folder of the weights to go on from; None for the plugin's own."""

    if (start := work.inputs.get("start")) is None:
        return None
    found, wanted = (type(plugins["reranker"]).__qualname__ for plugins in (start.plugins, work.plugins))
    if found != wanted:
        raise UsageError(
            f"{work.name}.start: {start.name} has trained a {found}, this is a {wanted}: take the same plugin"
        )
    return start.folder / MODEL_FOLDER


def _check_outputs(work: StageContext[Any], network: "PairNetwork") -> None:
    wanted, found = getattr(work.plugins["loss"], "outputs", None), network.module.num_labels
    if wanted not in (None, found):
        raise UsageError(
            f"{work.name}: loss {work.spec.loss.name} needs a head of {wanted} outputs, the reranker has {found}: "
            f"say outputs: {wanted} in its options, or take loss bce"
        )


def _validation(
    work: StageContext[Any], collection: StoredCollection, network: "PairNetwork"
) -> Callable[[], Mapping[str, float]] | None:
    """Ranks the dev queries' documents of a run anew; None where the recipe names no run."""
    from hardneg.models.inference import EncodeOptions
    from hardneg.training.methods.reranker import rerank_validation

    if (data := validation_data(work, collection)) is None:
        return None
    options = EncodeOptions(precision=work.spec.options.precision)
    return rerank_validation(network, data, work.spec.validation.depth, options)


def _said(work: StageContext[Any], collection: StoredCollection, result: "TrainingResult") -> dict[str, object]:
    """What the model card says."""
    options, negatives = work.spec.options, work.inputs["negatives"]
    pairs = options.batch_size * options.accumulate * (1 + options.negatives_per_query)
    said: dict[str, object] = {
        "Base model": work.spec.start or work.spec.reranker.options.get("source", work.spec.reranker.name),
        "Dataset": f"{counted(len(collection.corpus), 'passage')}, "
        f"{counted(negatives.facts['queries'], 'training query')}",
        "Negatives": f"{options.negatives_per_query} a query from {negatives.plugins.get('miner', negatives.name)}",
        "Loss": work.plugins["loss"],
        "Training": f"{counted(result.steps, 'step')} of {pairs} pairs, {options.optimizer}, "
        f"peak learning rate {options.learning_rate:g}, seed {options.seed}",
    }
    if options.adversarial:
        said["Adversarial"] = f"embeddings moved by {options.adversarial:g}"
    if result.best is not None:
        said[f"Dev {options.metric}, of a run's top"] = f"{result.best:.4f} at step {result.best_step}"
    return said
