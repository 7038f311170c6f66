"""The stages that train, on mined negatives or on those that are searched for while the model learns."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hardneg import fields
from hardneg.encoders.protocol import EncodeOptions
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import FREE, LATER, Name, Reference, Trait, without_problems
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.mining.choosing import needs_answers
from hardneg.protocols import DenseSearcher, EstimatedBackend, RunJoiner, Searcher, StoredSearcher, TrainableReranker
from hardneg.records import errors, layout, types, wording
from hardneg.registry import configure
from hardneg.runtime import distributed, seeding
from hardneg.stages import base, inputs, training
from hardneg.stages.base import ArtifactInput, Facts, IndexSpec, RecipeView, Row, Sizes, StageContext, source_of
from hardneg.store import SCRATCH, options_in_key
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.options import Devices, RefreshOptions, RerankerOptions
from hardneg.training.refresh import folder
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


class Train(training.TeacherOptions, training.DualOptions):
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
            for path, target, need in fields.marked_references(source):
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

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.training.methods.dual_encoder import DualEncoderTraining

        encoder, lacking = inputs.open_learner(context), dict[str, int]()
        if self.datasets:
            data: TrainingData | Mixture = self._mixture(context)
        else:
            data, lacking = self.taught(context, training.examples_of(collection, context.inputs.get("negatives")))
            if "augmented" in context.inputs:
                # without the queries that these negatives lack: whoever made them has counted what was left out
                more = training.examples_of(collection, context.inputs["augmented"])
                listed = set() if more.negatives is None else {*more.negatives.query_ids}
                data = mixed(data, more.only([row for row, name in enumerate(more.query_ids) if name in listed]))
            data = self.guided(context, self.ordered(context, replace(data, segments=self.segments)))

        def told(result: Any) -> tuple[Facts, Facts]:
            terms = self.terms_facts(context)
            if isinstance(data, TrainingData):
                return {**self._card(context, collection), **terms}, lacking
            drawn = data.examples(self.options).counts(result.steps * self.options.accumulate)
            facts = {f"examples of {name}": count for name, count in drawn.items()}
            return {**_card_of_several(data, drawn, self.options.negatives_per_query), **terms}, facts

        return DualEncoderTraining(encoder, data, self.options, self.terms(context, encoder)), told

    def _card(self, context: StageContext[Any], collection: StoredCollection) -> dict[str, object]:
        negatives, more = context.inputs.get("negatives"), context.inputs.get("augmented")
        if negatives is None:
            queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
        else:
            queries, maker = negatives.facts["queries"], negatives.plugins.get("miner", negatives.name)
            chosen = f"{self.options.negatives_per_query} a query from {maker}"
        augmented = {"Augmented": f"{more.facts['queries']} more queries from {more.name}"} if more else {}
        return {**training.data_facts(context, collection.corpus, queries), **augmented, "Negatives": chosen}

    def _mixture(self, context: StageContext[Any]) -> Mixture:
        """The stage's sources, by the alphabet, so that their order in a recipe does not count."""
        sources = dict[str, TrainingData]()
        for name in sorted(self.datasets):
            collection = inputs.open_collection(context.inputs[f"datasets.{name}.dataset"])
            data = training.examples_of(collection, context.inputs.get(f"datasets.{name}.negatives"))
            sources[name] = replace(data, segments=self.segments)
        return Mixture(sources, self.mixing.temperature, self.mixing.one_source, self.segments)


def _card_of_several(mixture: Mixture, drawn: Mapping[str, int], width: int) -> dict[str, object]:
    """drawn: how many examples of each source, with `width` negatives each."""
    facts: dict[str, object] = {}
    for name, source in mixture.sources.items():
        queries = wording.counted(len(source.query_ids), "query", "queries")
        examples, passages = wording.counted(drawn[name], "example"), wording.counted(len(source.corpus), "passage")
        facts[f"Dataset {name}"] = f"{passages}, {queries}; {examples}"
    by = "one a batch" if mixture.one_source else "mixed in a batch"
    negatives = f"{width} a query, mined apart" if width else "the other queries' documents"
    return {**facts, "Mixing": f"temperature {mixture.temperature:g}, {by}", "Negatives": negatives}


def _collection_of(negatives: str | None, recipe: RecipeView) -> str:
    stage = recipe.stages.get(negatives or "")
    return layout.DATASET if stage is None or stage.dataset is None else stage.dataset


class TrainReranker(training.TeacherOptions, training.ValidationOptions, training.TrainConfig):
    """Trains a reranker on mined negatives, each query's documents against each other."""

    version = 2
    artifact_type = "reranker"
    judged = "of a run's top"
    teaches = "reranker"
    gives = ("teacher",)
    purpose = "teach a network that reads a query and a passage together"
    stage: Literal["train-reranker"]
    reranker: Annotated[fields.Setting, fields.PluginKind("rerankers")] = Field(description="The reranker to train.")
    start: Annotated[Name | None, Reference(("reranker",))] = Field(
        default=None,
        description="The stage whose weights it goes on from, of the same plugin; by default the plugin's source.",
    )
    negatives: Annotated[Name, Reference(("negatives",))] = Field(description="Mined negatives, with their queries.")
    loss: fields.LossSetting = Field(default=types.PluginSetting(layout.BCE), description="What is minimised.")
    options: Annotated[RerankerOptions, AfterValidator(without_problems)] = training.of_the_run(RerankerOptions)

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
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

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.rerankers.network import PairNetwork, best_device
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
        data, lacking = self.taught(context, training.examples_of(collection, negatives))

        def told(result: Any) -> tuple[Facts, Facts]:
            maker = negatives.plugins.get("miner", negatives.name)
            more = {"Adversarial": f"embeddings moved by {options.adversarial:g}"} if options.adversarial else {}
            card = {
                "Base model": self.start or self.reranker.options.get("source", self.reranker.name),
                **training.data_facts(context, collection.corpus, negatives.facts["queries"]),
                "Negatives": f"{options.negatives_per_query} a query from {maker}",
                **more,
            }
            return card, lacking

        return RerankerTraining(network, data, loss, options), told

    def measure(self, network: Any, data: Any) -> training.Validate:
        from hardneg.training.methods.reranker import rerank_validation

        return rerank_validation(network, data, self.validation.depth, EncodeOptions(precision=self.options.precision))

    def save(self, context: StageContext[Any], network: Any, card: Mapping[str, object]) -> None:
        from hardneg.rerankers.network import reranker_card

        network.save(context.folder / layout.MODEL_FOLDER, reranker_card(network, card))


class WatchOptions(BaseModel):
    """Steps between looks at how the lists of some training queries age, compared with a top of the index."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    every: int = Field(gt=0)
    depth: int = Field(default=layout.TOP_DEPTH, gt=0)
    queries: int = Field(default=200, gt=0)


class TrainQueries(training.EncoderOptions, IndexSpec):
    """Trains the query encoder alone, on a fixed index."""

    version = 3
    purpose = "teach the query side alone, against the passages as they are in the index"
    gives = ("ranks",)
    inherits = ("seed",)
    stage: Literal["train-queries"]
    index: Annotated[Name, Reference(("index",), refuses={Trait.SEGMENTS: "name one without `segments`"})] = Field(
        description="The index that stays as it is."
    )
    split: Name = Field(default="train", description="The queries to train on.")
    schedule: Literal["dynamic", "static", "refreshed", "random"] = Field(
        default="dynamic",
        description="Where a step's documents come from: `dynamic` searches the index at each step, `static` takes the "
        "first `depth` of `negatives`, `refreshed` searches for all queries every `refresh_every` steps, `random` "
        "draws from the corpus.",
    )
    negatives: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None, description="The lists of schedule `static`."
    )
    refresh_every: int | None = Field(default=None, gt=0, description="Steps between searches of `refreshed`.")
    depth: int = Field(default=layout.TOP_DEPTH, gt=0, description="Documents a query.")
    forced_positives: Literal["none_retrieved", "always", "never"] = Field(
        default="none_retrieved", description="When the known positives that a list lacks are put after its end."
    )
    retrieval_dropout: bool = Field(
        default=True, description="Queries search as dropout left them; without it they are encoded once more."
    )
    centroids: Literal["fixed", "trained"] = Field(
        default="fixed",
        description="`trained` moves those of a product-quantised index too; the stage then makes an index as well, "
        "which a search may name.",
    )
    centroid_learning_rate: float = Field(default=1e-4, gt=0, description="The rate of the centroids.")
    watch: WatchOptions | None = Field(default=None, description="What to note of how negatives age.")

    @model_validator(mode="after")
    def _complete(self) -> "TrainQueries":
        if self.segments is not None:
            raise ValueError("segments: the index has one vector a document; leave them out")
        if self.centroids == "trained" and self.options.keep_every:
            raise ValueError("options.keep_every: a model is nothing without the centroids of its step; leave it out")
        for name, schedule in (("negatives", "static"), ("refresh_every", "refreshed")):
            is_set = getattr(self, name) is not None
            if is_set != (self.schedule == schedule):
                advice = f"leave out {name}" if is_set else f"give {name}"
                raise ValueError(f"schedule {self.schedule}: {advice}")
        return self

    @property
    def parts(self) -> Mapping[str, str]:
        return {**super().parts} | ({"index": layout.INDEX_FOLDER} if self.centroids == "trained" else {})

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {Trait.COMPRESSED: recipe.name} if "index" in self.parts else {}

    def identity(self) -> dict[str, Any]:
        watch = {} if self.watch is None else {"watch": self.watch.model_dump(mode="json")}
        return {**super().identity(), **watch}

    def query_model(self, recipe: RecipeView) -> str:
        return recipe.name

    def estimate(self, sizes: Sizes, split: str = "train", models: int = 2) -> Row:
        return super().estimate(sizes, self.split, models)

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.product import PqSearcher

        return PqSearcher.open(source.part("index")).using(options, progress)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.encoders.encoder import split
        from hardneg.training.methods.adore import JpqTraining

        encoder = split(inputs.open_learner(context))
        queries, negatives = collection.queries(self.split), context.inputs.get("negatives")
        data = training.training_data(collection, queries, negatives)
        way = self._method(context, collection, data, encoder)

        def told(result: Any) -> tuple[Facts, Facts]:
            if isinstance(way, JpqTraining):
                way.searcher.write_with_centroids(context.folder / layout.INDEX_FOLDER, way.centroids)
            card = {
                **training.data_facts(context, data.corpus, len(data.query_ids)),
                "Trained": f"the query side alone, on the index {context.inputs['index'].name}",
                "Negatives": f"{self.schedule}, {self.depth} a query",
            }
            return card, {}

        return way, told

    def _method(self, context: StageContext[Any], collection: StoredCollection, data: Any, encoder: Any) -> Any:
        """The training (`AdoreTraining`), with what its negatives come from."""
        from hardneg.indexes.product import PqSearcher
        from hardneg.training import validation
        from hardneg.training.methods import adore

        index, seed = context.inputs["index"], self.options.seed
        where = f"{context.name}: index {index.name}"
        searcher = inputs.open_searcher(index, collection, context.device, None, few=self.schedule == "dynamic")
        if not isinstance(searcher, DenseSearcher | StoredSearcher):
            problem = "holds nothing of documents that queries could be scored with"
            raise errors.UsageError(f"{where} {problem}: name an encode stage or an index of one")
        if self.centroids == "trained" and not isinstance(searcher, PqSearcher):
            raise errors.UsageError(f"{where} has no centroids to train: name one of pq or opq-pq")
        folder, shape = context.folder / SCRATCH, (len(data.query_ids), self.depth)
        source: adore.NegativeSource
        if self.schedule == "static":
            negatives = read_negatives(context.inputs["negatives"].folder / layout.NEGATIVES)
            source = adore.NegativeTable(folder, shape, adore.mined(data, negatives, self.depth))
        elif self.schedule == "refreshed":
            lists = adore.lists_by(encoder, data, searcher, self.depth)
            source = adore.NegativeTable(folder, shape, lists, self.refresh_every)
        elif self.schedule == "random":
            source = adore.Uniform(len(data.corpus), self.depth, seed)
        else:
            source = adore.Searched(searcher, self.depth, encoder.collect)
        examples, watch = Examples(data, int(data.negatives is not None), seed), None
        if self.watch is not None:
            count, draws = min(self.watch.queries, len(examples)), seeding.generator(seed, "watch")
            watched = examples.of(np.sort(draws.choice(examples.queries, count, replace=False)))
            in_use, every, depth = partial(source.in_use, watched), self.watch.every, self.watch.depth
            watch = validation.StalenessWatch(encoder, searcher, len(data.corpus), watched, in_use, every, depth)
        more: dict[str, Any] = {"searcher": searcher}
        if self.centroids == "trained":
            more["factor"] = self.centroid_learning_rate / self.options.learning_rate
        return (adore.JpqTraining if "factor" in more else adore.AdoreTraining)(
            encoder=encoder,
            examples=examples,
            index=index.key,
            content_hash=data.corpus.content_hash,
            source=source,
            forced=self.forced_positives,
            dropout=self.retrieval_dropout,
            watch=watch,
            **more,
        )


class TrainRefreshed(training.DualOptions):
    """Trains a dual encoder on negatives that it mines itself, again and again, while it trains."""

    version = 2
    purpose = "teach the model, with hard negatives that are mined again on the way"
    stage: Literal["train-refreshed"]
    split: Name = Field(default="train", description="The queries to train on.")
    negatives: Annotated[Name | None, Reference(("negatives",))] = Field(
        default=None,
        description="What is trained on until the first refresh, which then is not mined from the model as it starts; "
        "without them that one is waited for.",
    )
    refresh: Annotated[RefreshOptions, AfterValidator(without_problems)] = Field(
        description="When negatives are mined, and which."
    )
    miner: fields.OwnMinerSetting = Field(
        default=None, description="Selects negatives from the top of what the model finds, as `refresh.choice` may too."
    )
    filters: fields.FilterSettings = Field(default=(), description="Leave candidates out before, one after another.")
    devices: Annotated[Devices, AfterValidator(without_problems)] = Field(
        default=Devices(), json_schema_extra=FREE, description="What the two processes may use."
    )
    backend: fields.OwnIndexSetting = Field(
        default=None,
        json_schema_extra=LATER,
        description="The index that each refresh builds of the corpus and searches; without one it searches what the "
        "corpus was encoded into, exactly.",
    )

    @model_validator(mode="after")
    def _mines(self) -> "TrainRefreshed":
        if self.miner is not None and self.refresh.choice != "sampled":
            raise ValueError("refresh.choice: does not go with miner, which sets what is chosen; leave it out")
        return self

    def identity(self) -> dict[str, Any]:
        identity = {**super().identity(), "refresh": self.refresh.identity()}
        if self.miner is not None:
            del identity["refresh"]["choice"]
        return identity

    def mistakes(self, recipe: RecipeView) -> Iterator[str]:
        if isinstance(miner := recipe.plugin("miner"), RunJoiner):
            yield from (f"miner: {problem}" for problem in miner.problems(["dense"]))
        source, words = getattr(recipe.plugin("backend"), "input", None), base.FORM_WORDS
        family = recipe.models.of(self.began_with(recipe)).known_family
        if self.backend is not None and source == "texts":
            problem = f"{self.backend.name} is built from texts, which no refresh changes"
            yield f"backend: {problem}; leave it out, or name one of {words['vectors']}"
        elif self.backend is not None and family is not None and source not in (None, family.form):
            problem = f"{self.backend.name} is built from {words.get(str(source), source)}"
            yield f"backend: {problem}, and the recipe's model makes {words[family.form]}; name another"

    def missing(self, collection: Facts) -> Iterator[str]:
        needing = {"refresh.without_answers": self.refresh.without_answers, "filters": needs_answers(self.filters)}
        if not fields.has_answers(collection, self.split):
            reason = f"needs answers, and split {self.split} has none: leave it out"
            yield from (f"{name}: {reason}" for name, needs in needing.items() if needs)

    def estimate(self, sizes: Sizes, split: str = "train", models: int = 1) -> Row:
        row, encoding = super().estimate(sizes, split, models), base.encoding(self.segments, sizes)
        backend = None if self.backend is None else configure("indexes", self.backend)
        rows, disk = 1 if self.segments is None else self.segments.count, row.disk + encoding.disk
        if isinstance(backend, EstimatedBackend):
            disk += backend.disk_bytes(sizes.documents, sizes.documents * rows, sizes.dimension)
        return replace(row, disk=disk)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.training.methods.ance import AnceTraining
        from hardneg.training.refresh.mining import known_to_be_relevant

        refresh, refreshes = self.refresh, folder.RefreshFolder(context.folder / SCRATCH / "refreshes")
        encoder, queries = inputs.open_learner(context), collection.queries(self.split)
        data = training.training_data(collection, queries, context.inputs.get("negatives"))
        data = replace(data, positives=known_to_be_relevant(data.positives, refresh), segments=self.segments)
        data = self.guided(context, self.ordered(context, data))
        supply = ending.enter_context(_supply(context, encoder, data, refreshes))
        way = AnceTraining(encoder, data, self.options, refresh, supply, self.terms(context, encoder))

        def told(result: Any) -> tuple[Facts, Facts]:
            facts = folder.refresh_facts(result.history, refreshes.records(), way.waited, len(collection.corpus))
            context.progress.note(f"{context.name}: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
            by = "" if self.miner is None else f" by {self.miner.name}"
            often = f"{refresh.policy}, {refresh.every} steps"
            top = f"{refresh.negatives} a query of the model's own top {refresh.depth}{by}, refreshed: {often}"
            said = training.data_facts(context, collection.corpus, len(data.query_ids))
            return {**said, "Negatives": top, **self.terms_facts(context)}, facts

        return way, told


@contextmanager
def _supply(
    context: StageContext[TrainRefreshed], encoder: Any, data: TrainingData, refreshes: folder.RefreshFolder
) -> Iterator[Any]:
    """The `RefreshProvider` of the training; ends the process beside this one, and gives back the threads it had."""
    import torch

    from hardneg.training.checkpoint import Checkpoints
    from hardneg.training.refresh.mining import Settings
    from hardneg.training.refresh.provider import BackgroundProvider, Process, SynchronousProvider

    spec, note, scratch = context.spec, context.progress.note, context.folder / SCRATCH
    every, had = spec.refresh.every or 1, torch.get_num_threads()
    first = 0 if data.negatives is None else every
    of_trainer, of_inferencer = spec.devices.threads(had * distributed.world().local_size, distributed.world())
    pseudo = training.pseudo_positives(context.inputs.get("negatives"))
    settings = Settings(
        model=encoder.spec,
        collection=str(context.inputs["dataset"].folder),
        split=spec.split,
        checkpoints=str(scratch),
        refreshes=str(refreshes.folder),
        options=spec.refresh,
        seed=spec.options.seed,
        first=first,
        devices=spec.devices.mining(encoder.device, distributed.world(), torch.cuda.device_count()),
        threads=of_inferencer,
        segments=spec.segments,
        pseudo_positives=None if pseudo is None else str(pseudo),
        miner=spec.miner,
        filters=spec.filters,
        backend=spec.backend,
    )
    if spec.refresh.policy == "synchronous":
        checkpoints = Checkpoints(scratch, "")
        yield SynchronousProvider(encoder, settings.mining(), refreshes, checkpoints, first, every, note)
        return
    process = Process(settings, note)
    torch.set_num_threads(of_trainer)
    try:
        yield BackgroundProvider(process, refreshes, data.negatives is None, every, note)
    finally:
        process.stop()
        torch.set_num_threads(had)
