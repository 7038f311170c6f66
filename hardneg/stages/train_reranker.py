"""Verb `train-reranker`: a cross-encoder trained on mined negatives, judged on the dev queries while it trains."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, Field

from hardneg.encoders.spec import ModelSpec
from hardneg.fields import LossSetting, Name, PluginKind, Reference, Setting, without_problems
from hardneg.formats.collection import StoredCollection
from hardneg.protocols import Loss, TrainableReranker
from hardneg.records import BCE, MODEL_FOLDER, PluginSetting, UsageError
from hardneg.stages.shared.context import StageContext
from hardneg.stages.shared.stage_spec import RecipeView, Row, Sizes, source_of
from hardneg.stages.shared.train_config import (
    TeacherOptions,
    Told,
    TrainConfig,
    Validate,
    ValidationOptions,
    of_the_run,
)
from hardneg.stages.shared.training_data import data_facts, examples_of, taught
from hardneg.training.options import RerankerOptions

if TYPE_CHECKING:
    from hardneg.training.loop import TrainingResult
    from hardneg.training.methods.reranker import RerankerTraining


class TrainReranker(TeacherOptions, ValidationOptions, TrainConfig):
    """Trains a reranker on mined negatives, each query's documents against each other."""

    version = 2
    artifact_type = "reranker"
    judged = "of a run's top"
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

    @property
    def batch(self) -> str:
        options = self.options
        return f"{options.batch_size * options.accumulate * (1 + options.negatives_per_query)} pairs"

    @contextmanager
    def opened(
        self, context: StageContext[Any], collection: StoredCollection
    ) -> "Iterator[tuple[RerankerTraining, Told]]":
        from hardneg.rerankers.network import PairNetwork, best_device
        from hardneg.training.methods.reranker import RerankerTraining

        negatives, options = context.inputs["negatives"], self.options
        reranker, begun = context.plugin("reranker", TrainableReranker), None
        if (start := context.inputs.get("start")) is not None:
            own, now = (type(plugins["reranker"]).__qualname__ for plugins in (start.plugins, context.plugins))
            if own != now:
                problem = f"{start.name} has trained a {own}, this is a {now}: take the same plugin"
                raise UsageError(f"{context.name}.start: {problem}")
            begun = start.folder / MODEL_FOLDER
        network = PairNetwork(reranker.load(begun).to(context.device or best_device()))
        loss = context.plugin("loss", Loss)
        wanted, own = getattr(loss, "outputs", None), network.module.num_labels
        if wanted not in (None, own):
            needed = f"loss {self.loss.name} needs a head of {wanted} outputs, the reranker has {own}"
            raise UsageError(f"{context.name}: {needed}: say outputs: {wanted} in its options, or take loss bce")
        data, lacking = taught(context, examples_of(collection, negatives))

        def told(result: "TrainingResult") -> tuple[Mapping[str, object], Mapping[str, object]]:
            maker = negatives.plugins.get("miner", negatives.name)
            more = {"Adversarial": f"embeddings moved by {options.adversarial:g}"} if options.adversarial else {}
            card = {
                "Base model": self.start or self.reranker.options.get("source", self.reranker.name),
                **data_facts(context, collection.corpus, negatives.count("queries")),
                "Negatives": f"{options.negatives_per_query} a query from {maker}",
                **more,
            }
            return card, lacking

        yield RerankerTraining(network, data, loss, options), told

    def judge(self, context: StageContext[Any], collection: StoredCollection, network: Any) -> Validate | None:
        from hardneg.encoders.protocol import EncodeOptions
        from hardneg.training.methods.reranker import rerank_validation

        if (dev := self.dev_data(context, collection)) is None:
            return None
        return rerank_validation(network, dev, self.validation.depth, EncodeOptions(precision=self.options.precision))

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.rerankers.network import reranker_card

        network.save(context.folder / MODEL_FOLDER, reranker_card(network, card))
