"""Verb `train-reranker`: a cross-encoder trained on mined negatives, judged on the dev queries while it trains."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import AfterValidator, Field

from hardneg.encoders.spec import ModelSpec
from hardneg.fields import LossSetting, Name, PluginKind, Reference, Setting, without_problems
from hardneg.formats.collection import StoredCollection
from hardneg.records.errors import UsageError
from hardneg.records.layout import MODEL_FOLDER
from hardneg.records.named_plugins import BCE
from hardneg.records.types import PluginSetting
from hardneg.registry.protocols import Loss, TrainableReranker
from hardneg.runtime.distributed import world
from hardneg.training.options import RerankerOptions
from hardneg.verbs.shared.context import Facts, StageContext
from hardneg.verbs.shared.inputs import open_collection
from hardneg.verbs.shared.stage_spec import RecipeView, Row, Sizes, source_of
from hardneg.verbs.shared.training_common import (
    data_facts,
    examples_of,
    finished,
    learned,
    taught,
    training_facts,
    validation_data,
)
from hardneg.verbs.shared.training_options import Judging, Learning, Taught, of_the_run

if TYPE_CHECKING:
    from hardneg.training.loop import TrainingResult


class TrainReranker(Taught, Judging, Learning):
    """Trains a reranker on mined negatives, each query's documents against each other."""

    version = 2
    artifact_type = "reranker"
    artifact_folder = MODEL_FOLDER
    teaches = "reranker"
    gives = ("teacher",)
    purpose = "teach a network that reads a query and a passage together"
    stage: Literal["train-reranker"]
    reranker: Annotated[Setting, PluginKind("rerankers")] = Field(description="The reranker to train.")
    start: Annotated[Name | None, Reference(("reranker",))] = Field(
        default=None,
        description="The stage whose weights it goes on from, of the same plugin; by default the plugin's source.",
    )
    negatives: Annotated[Name, Reference(("negatives",))] = Field(description="Mined negatives, with their queries.")
    loss: LossSetting = Field(default=PluginSetting(BCE), description="What is minimised.")
    options: Annotated[RerankerOptions, AfterValidator(without_problems)] = of_the_run(RerankerOptions)

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """A plugin without a network, or with a head that the loss does not take."""
        reranker, wanted = recipe.plugin("reranker"), getattr(recipe.plugin("loss"), "outputs", None)
        if reranker is not None and not isinstance(reranker, TrainableReranker):
            yield f"reranker: {self.reranker.name} cannot be trained: it has no network to load"
        elif wanted is not None and (own := getattr(reranker, "head", None)) not in (None, wanted):
            mismatch = f"{self.loss.name} needs a head of {wanted} outputs, the reranker has {own}"
            yield f"loss: {mismatch}; say reranker.outputs: {wanted}, or take loss bce"

    def network(self, recipe: RecipeView) -> ModelSpec | None:
        return source_of(recipe.plugin("reranker"))

    def estimate(self, sizes: Sizes) -> Row:
        return Row(self.options.last_step(sizes.queries("train")), "steps", 4 * sizes.network.weights)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"rerankers/{recipe.name}": MODEL_FOLDER, **super().publishes(recipe)}

    def make(self, context: "StageContext[TrainReranker]") -> Facts:
        """Trains, saves the network with its card, and leaves the learning curve beside it."""
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.rerankers.network import PairNetwork, reranker_card
        from hardneg.rerankers.pair_scoring import best_device
        from hardneg.training.methods.reranker import RerankerTraining, rerank_validation

        collection = open_collection(context.inputs["dataset"])
        reranker = context.plugin("reranker", TrainableReranker)
        network = PairNetwork(reranker.load(_start(context)).to(context.device or best_device()))
        loss = context.plugin("loss", Loss)
        wanted, own = getattr(loss, "outputs", None), network.module.num_labels
        if wanted not in (None, own):
            needed = f"loss {self.loss.name} needs a head of {wanted} outputs, the reranker has {own}"
            raise UsageError(f"{context.name}: {needed}: say outputs: {wanted} in its options, or take loss bce")
        data, teacher_facts = taught(context, examples_of(collection, context.inputs["negatives"]))
        way = RerankerTraining(network, data, loss, self.options)
        validate = None
        if (dev := validation_data(context, collection)) is not None:
            encoding = EncodeOptions(precision=self.options.precision)
            validate = rerank_validation(network, dev, self.validation.depth, encoding)
        result = learned(context, way, validate)
        if not world().first:
            return {}
        network.save(context.folder / MODEL_FOLDER, reranker_card(network, _said(context, collection, result)))
        return {**finished(context, result), **teacher_facts}


def _start(context: StageContext[TrainReranker]) -> Path | None:
    if (start := context.inputs.get("start")) is None:
        return None
    own, wanted = (type(plugins["reranker"]).__qualname__ for plugins in (start.plugins, context.plugins))
    if own != wanted:
        raise UsageError(
            f"{context.name}.start: {start.name} has trained a {own}, this is a {wanted}: take the same plugin"
        )
    return start.folder / MODEL_FOLDER


def _said(
    context: StageContext[TrainReranker], collection: StoredCollection, result: "TrainingResult"
) -> dict[str, object]:
    spec, options, negatives = context.spec, context.spec.options, context.inputs["negatives"]
    pairs = f"{options.batch_size * options.accumulate * (1 + options.negatives_per_query)} pairs"
    maker = negatives.plugins.get("miner", negatives.name)
    more = {"Adversarial": f"embeddings moved by {options.adversarial:g}"} if options.adversarial else {}
    if "teacher" in context.inputs:
        more["Teacher"] = f"the scores of {context.inputs['teacher'].name}"
    return {
        "Base model": spec.start or spec.reranker.options.get("source", spec.reranker.name),
        **data_facts(context, collection.corpus, negatives.count("queries")),
        "Negatives": f"{options.negatives_per_query} a query from {maker}",
        **training_facts(context, result, pairs, "of a run's top", more),
    }
