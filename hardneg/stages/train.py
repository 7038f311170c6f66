"""Stages `train` and `train-reranker`: a dual encoder, or a cross-encoder, trained on mined negatives."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import LATER, LossSetting, Name, PluginKind, Reference, Setting, marked_references, without_problems
from hardneg.formats.collection import StoredCollection
from hardneg.protocols import TrainableReranker
from hardneg.records import errors, layout, named_plugins, types, wording
from hardneg.stages.base import Facts, RecipeView, Row, Sizes, StageContext, source_of
from hardneg.stages.inputs import open_collection, open_learner
from hardneg.stages.training import Told, TrainConfig, Validate, ValidationOptions, of_the_run
from hardneg.stages.training_data import DualOptions, TeacherOptions, data_facts, examples_of
from hardneg.store.identity import options_in_key
from hardneg.training.examples import TrainingData
from hardneg.training.options import RerankerOptions
from hardneg.training.sources import Mixture, mixed

_OF_ONE = ("negatives", "augmented", "teacher", "guide", "batches", "batches_from")
"""Fields of a training that are of one collection."""


class SourceOptions(BaseModel):
    """One collection of a training: a mining stage, or a collection without mined negatives."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    negatives: Annotated[Name | None, Reference(("negatives",))] = None
    dataset: Annotated[Name | None, Reference(("collection",))] = None


class MixingOptions(BaseModel):
    """How sources are drawn; `temperature` T: with p in proportion to n^(1/T), for each example or each batch."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    temperature: float = 1.0
    one_source: bool = False


_Source = Annotated[
    SourceOptions, BeforeValidator(lambda value: {"negatives": value} if isinstance(value, str) else value)
]
"""A source may be the name of its negatives alone."""


class Train(TeacherOptions, DualOptions):
    """Trains a dual encoder on mined negatives, or, without them, on the other queries' documents for split `train`."""

    version = 2
    purpose = "teach the model to tell the relevant passages from the hard negatives"
    stage: Literal["train"]
    negatives: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None, description="Mined negatives, and the queries that they are of."
    )
    augmented: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None,
        description="More negatives, with the queries they are of, such as a label stage makes: their examples are "
        "mixed with the others.",
    )
    datasets: dict[Name, _Source] = Field(
        default={},
        json_schema_extra=LATER,
        description="Several collections to learn from, by name: each a stage that mined negatives, or a mapping with "
        "`negatives` or `dataset`.",
    )
    mixing: MixingOptions = Field(
        default=MixingOptions(),
        json_schema_extra=LATER,
        description="How these are drawn: `temperature` T, a collection of n queries with p in proportion to n^(1/T); "
        "with `one_source`, each batch is of one of them.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "Train":
        if self.negatives is None and self.options.negatives_per_query and not self.datasets:
            raise ValueError("negatives: missing; for the other queries' documents alone set negatives_per_query to 0")
        return self

    def references(self) -> Iterator[tuple[str, str, Reference]]:
        yield from super().references()
        for name, source in self.datasets.items():
            for path, target, need in marked_references(source):
                yield f"datasets.{name}.{path}", target, need

    def identity(self) -> dict[str, Any]:
        """The sources, which count by their content; with the words of keys for what they no longer have."""
        identity = super().identity()
        if "mixing" in identity:
            identity["mixing"] = options_in_key(self.mixing)
        if self.datasets:
            bare = {"cap": None, "query_prompt": None, "document_prompt": None}
            identity["datasets"] = dict.fromkeys(self.datasets, bare)
        return identity

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        collections = {
            f"datasets.{name}.dataset": _collection_of(source.negatives, recipe)
            for name, source in self.datasets.items()
            if source.negatives is not None and source.dataset is None
        }
        return {**super().implied(recipe), **collections}

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        """Options of one collection beside several, and what sources cannot have."""
        if not self.datasets and self.mixing != MixingOptions():
            yield "mixing: there is nothing to mix; name collections in datasets, or leave it out"
        for name in _OF_ONE if self.datasets else ():
            if getattr(self, name, None) is not None:
                yield f"{name}: is of one collection; leave it out beside datasets"
        if not self.mixing.temperature > 0:
            yield f"mixing.temperature: must be above 0, not {self.mixing.temperature:g}"
        for name, source in self.datasets.items():
            if source.negatives is None and source.dataset is None:
                yield f"datasets.{name}.negatives: missing; name a stage that mined some, or a collection in `dataset`"
            elif source.negatives is None and self.options.negatives_per_query:
                advice = "for the other queries' documents alone set options.negatives_per_query to 0"
                yield f"datasets.{name}.negatives: missing; {advice}"
            own = _collection_of(source.negatives, recipe)
            if source.negatives in recipe.stages and source.dataset not in (None, own):
                yield f"datasets.{name}.dataset: {source.negatives!r} is of {own!r}; leave this out"

    def why(self) -> str:
        others = "the relevant passages of the other queries in the batch"
        mined = self.negatives is not None or self.datasets
        return self.purpose if mined else self.purpose.replace("the hard negatives", others)

    def estimate(self, sizes: Sizes, split: str = "train", models: int = 1) -> Row:
        if self.datasets:  # the queries of all are learnt from
            names = (f"datasets.{name}.dataset" for name in self.datasets)
            queries = sum(sizes.collections.get(name, sizes).queries(split) for name in names)
            sizes = replace(sizes, splits={**sizes.splits, split: queries})
        return super().estimate(sizes, split, models)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> tuple[Any, Told]:
        from hardneg.training.methods.dual_encoder import DualEncoderTraining

        encoder, lacking = open_learner(context), dict[str, int]()
        if self.datasets:
            data: TrainingData | Mixture = self._mixture(context)
        else:
            data, lacking = self.taught(context, examples_of(collection, context.inputs.get("negatives")))
            if "augmented" in context.inputs:
                # without the queries that these negatives lack: whoever made them has counted what was left out
                more = examples_of(collection, context.inputs["augmented"])
                listed = set() if more.negatives is None else {*more.negatives.query_ids}
                data = mixed(data, more.only([row for row, name in enumerate(more.query_ids) if name in listed]))
            data = self.guided(context, self.ordered(context, replace(data, segments=self.segments)))

        def told(result: Any) -> tuple[Facts, Facts]:
            terms = self.terms_facts(context)
            if isinstance(data, TrainingData):
                return {**self._card(context, collection), **terms}, lacking
            drawn = data.examples(self.options).counts(result.steps * self.options.accumulate)
            facts = {f"examples of {name}": count for name, count in drawn.items()}
            return {**self._card_of_several(data, drawn), **terms}, facts

        return DualEncoderTraining(encoder, data, self.options, self.terms(context, encoder)), told

    def _card(self, context: "StageContext[Train]", collection: StoredCollection) -> dict[str, object]:
        negatives, more = context.inputs.get("negatives"), context.inputs.get("augmented")
        if negatives is None:
            queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
        else:
            queries, maker = negatives.facts["queries"], negatives.plugins.get("miner", negatives.name)
            chosen = f"{self.options.negatives_per_query} a query from {maker}"
        facts = data_facts(context, collection.corpus, queries)
        if more is not None:
            facts["Augmented"] = f"{more.facts['queries']} more queries from {more.name}"
        return {**facts, "Negatives": chosen}

    def _mixture(self, context: StageContext[Any]) -> Mixture:
        """The stage's sources, by the alphabet, so that their order in a recipe does not count."""
        sources = dict[str, TrainingData]()
        for name in sorted(self.datasets):
            collection = open_collection(context.inputs[f"datasets.{name}.dataset"])
            data = examples_of(collection, context.inputs.get(f"datasets.{name}.negatives"))
            sources[name] = replace(data, segments=self.segments)
        return Mixture(sources, self.mixing.temperature, self.mixing.one_source, self.segments)

    def _card_of_several(self, mixture: Mixture, drawn: Mapping[str, int]) -> dict[str, object]:
        """drawn: how many examples of each source."""
        facts: dict[str, object] = {}
        for name, source in mixture.sources.items():
            queries = wording.counted(len(source.query_ids), "query", "queries")
            examples, passages = wording.counted(drawn[name], "example"), wording.counted(len(source.corpus), "passage")
            facts[f"Dataset {name}"] = f"{passages}, {queries}; {examples}"
        by = "one a batch" if mixture.one_source else "mixed in a batch"
        width = self.options.negatives_per_query
        negatives = f"{width} a query, mined apart" if width else "the other queries' documents"
        return {**facts, "Mixing": f"temperature {mixture.temperature:g}, {by}", "Negatives": negatives}


def _collection_of(negatives: str | None, recipe: RecipeView) -> str:
    stage = recipe.stages.get(negatives or "")
    return layout.DATASET if stage is None or stage.dataset is None else stage.dataset


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
    loss: LossSetting = Field(default=types.PluginSetting(named_plugins.BCE), description="What is minimised.")
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
        return {f"rerankers/{recipe.name}": layout.MODEL_FOLDER, **super().publishes(recipe)}

    @property
    def batch(self) -> str:
        options = self.options
        return f"{options.batch_size * options.accumulate * (1 + options.negatives_per_query)} pairs"

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> tuple[Any, Told]:
        from hardneg.rerankers.network import PairNetwork
        from hardneg.rerankers.pair_scoring import best_device
        from hardneg.training.methods.reranker import RerankerTraining

        negatives, start, options = context.inputs["negatives"], context.inputs.get("start"), self.options
        if start is not None:
            own, now = (type(plugins["reranker"]).__qualname__ for plugins in (start.plugins, context.plugins))
            if own != now:
                problem = f"{start.name} has trained a {own}, this is a {now}: take the same plugin"
                raise errors.UsageError(f"{context.name}.start: {problem}")
        module = context.plugins["reranker"].load(None if start is None else start.folder / layout.MODEL_FOLDER)
        network, loss = PairNetwork(module.to(context.device or best_device())), context.plugins["loss"]
        wanted, outputs = getattr(loss, "outputs", None), network.module.num_labels
        if wanted not in (None, outputs):
            needed = f"loss {self.loss.name} needs a head of {wanted} outputs, the reranker has {outputs}"
            raise errors.UsageError(f"{context.name}: {needed}: say outputs: {wanted} in its options, or take loss bce")
        data, lacking = self.taught(context, examples_of(collection, negatives))

        def told(result: Any) -> tuple[Facts, Facts]:
            maker = negatives.plugins.get("miner", negatives.name)
            more = {"Adversarial": f"embeddings moved by {options.adversarial:g}"} if options.adversarial else {}
            card = {
                "Base model": self.start or self.reranker.options.get("source", self.reranker.name),
                **data_facts(context, collection.corpus, negatives.facts["queries"]),
                "Negatives": f"{options.negatives_per_query} a query from {maker}",
                **more,
            }
            return card, lacking

        return RerankerTraining(network, data, loss, options), told

    def measure(self, network: Any, data: Any) -> Validate:
        from hardneg.training.methods.reranker import rerank_validation

        return rerank_validation(network, data, self.validation.depth, EncodeOptions(precision=self.options.precision))

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.rerankers.network import reranker_card

        network.save(context.folder / layout.MODEL_FOLDER, reranker_card(network, card))
