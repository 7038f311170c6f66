"""Stages `train` and `train-reranker`: training on mined negatives."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hardneg import fields
from hardneg.encoders.protocol import EncodeOptions
from hardneg.protocols import TrainableReranker
from hardneg.records import errors, layout, types, wording
from hardneg.stages import Facts, RecipeView, StageContext, StoredCollection, base, training, work
from hardneg.store import options_in_key
from hardneg.training import examples, sources
from hardneg.training.options import RerankerOptions

_OF_ONE = ("negatives", "augmented", "teacher", "guide", "batches", "batches_from")
"""Fields that apply only to training on a single collection."""


class SourceOptions(BaseModel):
    """A collection to train on: its mined negatives or, for in-batch negatives alone, the collection itself."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    negatives: Annotated[fields.Name | None, fields.Reference(("negatives",))] = None
    dataset: Annotated[fields.Name | None, fields.Reference(("collection",))] = None


class MixingOptions(BaseModel):
    """Draws a source per example or (`one_source`) per batch; a source of n queries has weight n^(1/`temperature`)."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    temperature: float = 1.0
    one_source: bool = False


_Source = Annotated[
    SourceOptions, BeforeValidator(lambda value: {"negatives": value} if isinstance(value, str) else value)
]
"""A source, or just the name of the stage that mined its negatives."""


class Train(training.TeacherOptions, training.DualOptions):
    """Trains a dual encoder on mined negatives or, without any, on split `train` with in-batch negatives alone."""

    version = 2
    stage: Literal["train"]
    negatives: Annotated[fields.Name | None, fields.Reference(("negatives",))] = Field(
        default=None, description="Mined negatives, with their queries."
    )
    augmented: Annotated[fields.Name | None, fields.Reference(("negatives",))] = Field(
        default=None, description="Additional queries with their positives and negatives, such as from a label stage."
    )
    datasets: dict[fields.Name, _Source] = Field(
        default={},
        json_schema_extra=fields.LATER,
        description="Collections to train on, by name; each is a stage that mined negatives, or a mapping with "
        "`negatives` or `dataset`.",
    )
    mixing: MixingOptions = Field(
        default=MixingOptions(),
        json_schema_extra=fields.LATER,
        description="Sampling of `datasets`: with `temperature` T, a collection of n queries has a probability "
        "proportional to n^(1/T); with `one_source`, each batch comes from one collection.",
    )

    @model_validator(mode="after")
    def _complete(self) -> "Train":
        if self.negatives is None and self.options.negatives_per_query and not self.datasets:
            raise ValueError("negatives: missing; for in-batch negatives only, set options.negatives_per_query to 0")
        return self

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        if "mixing" in identity:
            identity["mixing"] = options_in_key(self.mixing)
        if self.datasets:
            earlier = {"cap": None, "query_prompt": None, "document_prompt": None}  # former options, in keys
            identity["datasets"] = dict.fromkeys(self.datasets, earlier)
        return identity

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        collections = {
            f"datasets.{name}.dataset": _collection_of(source.negatives, recipe)
            for name, source in self.datasets.items()
            if source.negatives is not None and source.dataset is None
        }
        return {**super().implied(recipe), **collections}

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        if not self.datasets and self.mixing != MixingOptions():
            yield "mixing: needs datasets; set datasets, or remove it"
        for name in _OF_ONE if self.datasets else ():
            if getattr(self, name, None) is not None:
                yield f"{name}: cannot be combined with datasets; remove one of them"
        if not self.mixing.temperature > 0:
            yield f"mixing.temperature: must be above 0, not {self.mixing.temperature:g}"
        for name, source in self.datasets.items():
            if source.negatives is None and source.dataset is None:
                yield f"datasets.{name}.negatives: missing; set it to a mining stage, or set `dataset` to a collection"
            elif source.negatives is None and self.options.negatives_per_query:
                advice = "for in-batch negatives only, set options.negatives_per_query to 0"
                yield f"datasets.{name}.negatives: missing; {advice}"
            own = _collection_of(source.negatives, recipe)
            if source.negatives in recipe.stages and source.dataset not in (None, own):
                yield f"datasets.{name}.dataset: {source.negatives!r} was mined from {own!r}; remove it"

    @property
    def purpose(self) -> str:  # type: ignore[override]
        mined = self.negatives is not None or self.datasets
        others = "the hard negatives" if mined else "the passages of the other queries in the batch"
        return f"train the model to distinguish relevant passages from {others}"

    def estimate(self, sizes: base.Sizes, split: str = "train", models: int = 1) -> base.Row:
        if self.datasets:  # trains on the queries of all collections
            names = (f"datasets.{name}.dataset" for name in self.datasets)
            queries = sum(sizes.collections.get(name, sizes).queries(split) for name in names)
            sizes = replace(sizes, splits={**sizes.splits, split: queries})
        return super().estimate(sizes, split, models)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.training.methods.dual_encoder import DualEncoderTraining

        encoder, lacking = work.open_learner(context), dict[str, int]()
        if self.datasets:
            data: examples.TrainingData | sources.Mixture = self._mixture(context)
        else:
            data, lacking = self.with_teacher(
                context, training.examples_of(collection, context.inputs.get("negatives"))
            )
            if "augmented" in context.inputs:
                # without queries that have no negatives; their stage has counted these
                more = training.examples_of(collection, context.inputs["augmented"])
                listed = set() if more.negatives is None else {*more.negatives.query_ids}
                rows = [row for row, name in enumerate(more.query_ids) if name in listed]
                data = sources.mixed(data, more.only(rows))
            data = self.with_guide(context, self.with_order(context, replace(data, segments=self.segments)))

        def told(result: Any) -> tuple[Facts, Facts]:
            terms = self.terms_facts(context)
            if isinstance(data, examples.TrainingData):
                return {**self._card(context, collection), **terms}, lacking
            drawn = data.examples(self.options).counts(result.steps * self.options.accumulate)
            facts = {f"examples of {name}": count for name, count in drawn.items()}
            return {**_card_of_several(data, drawn, self.options.negatives_per_query), **terms}, facts

        return DualEncoderTraining(encoder, data, self.options, self.terms(context, encoder)), told

    def _card(self, context: StageContext[Any], collection: StoredCollection) -> dict[str, object]:
        negatives, more = context.inputs.get("negatives"), context.inputs.get("augmented")
        if negatives is None:
            queries, chosen = len(collection.queries("train").query_ids), "in-batch only"
        else:
            queries, maker = negatives.facts["queries"], negatives.plugins.get("miner", negatives.name)
            chosen = f"{self.options.negatives_per_query} per query from {maker}"
        augmented = {"Augmented": f"{more.facts['queries']} more queries from {more.name}"} if more else {}
        return {**work.data_facts(context, collection.corpus, queries), **augmented, "Negatives": chosen}

    def _mixture(self, context: StageContext[Any]) -> sources.Mixture:
        by_name = dict[str, examples.TrainingData]()
        for name in sorted(self.datasets):
            collection = work.open_collection(context.inputs[f"datasets.{name}.dataset"])
            data = training.examples_of(collection, context.inputs.get(f"datasets.{name}.negatives"))
            by_name[name] = replace(data, segments=self.segments)
        return sources.Mixture(by_name, self.mixing.temperature, self.mixing.one_source, self.segments)


def _card_of_several(mixture: sources.Mixture, drawn: Mapping[str, int], width: int) -> dict[str, object]:
    """Return the model card of a mixture; drawn: examples by source, with `width` negatives each."""
    facts: dict[str, object] = {}
    for name, source in mixture.sources.items():
        queries = wording.counted(len(source.query_ids), "query", "queries")
        passages = wording.counted(len(source.corpus), "passage")
        facts[f"Dataset {name}"] = f"{passages}, {queries}; {wording.counted(drawn[name], 'example')}"
    by = "one source per batch" if mixture.one_source else "mixed batches"
    negatives = f"{width} per query, mined per source" if width else "in-batch only"
    return {**facts, "Mixing": f"temperature {mixture.temperature:g}, {by}", "Negatives": negatives}


def _collection_of(negatives: str | None, recipe: RecipeView) -> str:
    stage = recipe.stages.get(negatives or "")
    return layout.DATASET if stage is None or stage.dataset is None else stage.dataset


class TrainReranker(training.TeacherOptions, training.ValidationOptions, training.TrainConfig):
    """Trains a reranker on each query's positives and mined negatives."""

    version = 2
    artifact_type = "reranker"
    judged = "over a run's top"
    teaches = "reranker"
    gives = ("teacher",)
    purpose = "train a network that reads a query and a passage together"
    stage: Literal["train-reranker"]
    reranker: Annotated[fields.Setting, fields.PluginKind("rerankers")] = Field(description="The reranker to train.")
    start: Annotated[fields.Name | None, fields.Reference(("reranker",))] = Field(
        default=None,
        description="A stage that trained the same reranker, to start from its weights; default: the source.",
    )
    negatives: Annotated[fields.Name, fields.Reference(("negatives",))] = Field(
        description="Mined negatives, with their queries."
    )
    loss: fields.LossSetting = Field(default=types.PluginSetting(layout.BCE), description="The training loss.")
    options: Annotated[RerankerOptions, AfterValidator(fields.without_problems)] = Field(
        default_factory=RerankerOptions, description=training.OF_THE_RUN
    )

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        reranker, wanted = recipe.plugin("reranker"), getattr(recipe.plugin("loss"), "outputs", None)
        if reranker is not None and not isinstance(reranker, TrainableReranker):
            yield f"reranker: {self.reranker.name} has no network to train; use another reranker"
        elif wanted is not None and (own := getattr(reranker, "head", None)) not in (None, wanted):
            mismatch = f"{self.loss.name} needs {wanted} outputs, but the reranker has {own}"
            yield f"loss: {mismatch}; set reranker.outputs: {wanted}, or use loss bce"

    def estimate(self, sizes: base.Sizes) -> base.Row:
        return base.Row(self.options.last_step(sizes.queries("train")), "steps", 4 * sizes.network.weights)

    def publishes(self, recipe: RecipeView) -> Mapping[str, str]:
        return {f"rerankers/{recipe.name}": layout.MODEL_FOLDER, **super().publishes(recipe)}

    @property
    def batch(self) -> str:
        options = self.options
        return f"{options.batch_size * options.accumulate * (1 + options.negatives_per_query)} pairs"

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.rerankers.network import PairNetwork, best_device
        from hardneg.training.methods.reranker import RerankerTraining

        negatives, start, options = context.inputs["negatives"], context.inputs.get("start"), self.options
        if start is not None:
            own, now = (type(plugins["reranker"]).__qualname__ for plugins in (start.plugins, context.plugins))
            if own != now:
                problem = f"{start.name} trained {own}, but this stage trains {now}; use the same plugin"
                raise errors.UsageError(f"{context.name}.start: {problem}")
        module = context.plugins["reranker"].load(None if start is None else start.folder / layout.MODEL_FOLDER)
        network, loss = PairNetwork(module.to(context.device or best_device())), context.plugins["loss"]
        wanted, outputs = getattr(loss, "outputs", None), network.module.num_labels
        if wanted not in (None, outputs):
            needed = f"loss {self.loss.name} needs {wanted} outputs, but the reranker has {outputs}"
            raise errors.UsageError(f"{context.name}: {needed}; set reranker.outputs: {wanted}, or use loss bce")
        data, lacking = self.with_teacher(context, training.examples_of(collection, negatives))

        def told(result: Any) -> tuple[Facts, Facts]:
            maker = negatives.plugins.get("miner", negatives.name)
            more = {"Adversarial": f"embeddings perturbed by {options.adversarial:g}"} if options.adversarial else {}
            card = {
                "Base model": self.start or self.reranker.options.get("source", self.reranker.name),
                **work.data_facts(context, collection.corpus, negatives.facts["queries"]),
                "Negatives": f"{options.negatives_per_query} per query from {maker}",
                **more,
            }
            return card, lacking

        return RerankerTraining(network, data, loss, options), told

    def measure(self, network: Any, data: Any) -> training.Validate:
        from hardneg.training.validation import rerank_validation

        return rerank_validation(network, data, self.validation.depth, EncodeOptions(precision=self.options.precision))

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.rerankers.network import reranker_card

        network.save(context.folder / layout.MODEL_FOLDER, reranker_card(network, card))
