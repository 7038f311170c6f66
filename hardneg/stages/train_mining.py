"""Stages `train-queries` and `train-refreshed`: training on negatives that are searched for while the model learns."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hardneg import fields
from hardneg.fields import FREE, LATER, Name, Reference, Trait, without_problems
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.mining.choosing import needs_answers
from hardneg.protocols import DenseSearcher, EstimatedBackend, RunJoiner, Searcher, StoredSearcher
from hardneg.records import depths, errors, layout
from hardneg.registry import configure
from hardneg.runtime.distributed import world
from hardneg.runtime.seeding import generator
from hardneg.stages import base, inputs, training_data
from hardneg.stages.base import ArtifactInput, Facts, IndexSpec, RecipeView, Row, Sizes, StageContext
from hardneg.stages.training import EncoderOptions, Told
from hardneg.store.artifacts import SCRATCH
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.refresh.folder import RefreshFolder, refresh_facts
from hardneg.training.refresh.refresh_options import Devices, RefreshOptions


class WatchOptions(BaseModel):
    """What to note every so many steps of some training queries: how the lists in use age, and the ranking.

    depth: the top of the index that they are compared with. queries: how many to look at.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: int = Field(gt=0)
    depth: int = Field(default=depths.TOP_DEPTH, gt=0)
    queries: int = Field(default=200, gt=0)


class TrainQueries(training_data.GuideOptions, EncoderOptions, IndexSpec):
    """Trains the query encoder alone, on a fixed index; a guide scores each query's list."""

    version = 3
    purpose = "teach the query side alone, against the passages as they are in the index"
    gives = ("ranks", "teacher", "guide")
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
    depth: int = Field(default=depths.TOP_DEPTH, gt=0, description="Documents a query.")
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
        from hardneg.indexes.backends.product import PqSearcher

        return PqSearcher.open(source.part("index")).using(options, progress)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> tuple[Any, Told]:
        from hardneg.encoders.encoder import split
        from hardneg.training.methods.adore import JpqTraining

        encoder = split(inputs.open_learner(context))
        queries, negatives = collection.queries(self.split), context.inputs.get("negatives")
        data = self.guided(context, training_data.training_data(collection, queries, negatives))
        way = self._method(context, collection, data, encoder)

        def told(result: Any) -> tuple[Facts, Facts]:
            if isinstance(way, JpqTraining):
                centroids = way.centroids.detach().cpu().numpy()
                way.product.write_with_centroids(context.folder / layout.INDEX_FOLDER, centroids)
            card = {
                **training_data.data_facts(context, data.corpus, len(data.query_ids)),
                "Trained": f"the query side alone, on the index {context.inputs['index'].name}",
                "Negatives": f"{self.schedule}, {self.depth} a query",
                **self.guide_facts(context),
            }
            return card, {}

        return way, told

    def _method(self, context: StageContext[Any], collection: StoredCollection, data: Any, encoder: Any) -> Any:
        """The training (`AdoreTraining`), with what its negatives come from."""
        from hardneg.indexes.backends.product import PqSearcher
        from hardneg.training import negative_sources as sources
        from hardneg.training.methods.adore import AdoreTraining, JpqTraining
        from hardneg.training.validation import StalenessWatch

        index, seed = context.inputs["index"], self.options.seed
        where = f"{context.name}: index {index.name}"
        searcher = inputs.open_searcher(index, collection, context.device, None, few=self.schedule == "dynamic")
        if not isinstance(searcher, DenseSearcher | StoredSearcher):
            problem = "holds nothing of documents that queries could be scored with"
            raise errors.UsageError(f"{where} {problem}: name an encode stage or an index of one")
        if self.centroids == "trained" and not isinstance(searcher, PqSearcher):
            raise errors.UsageError(f"{where} has no centroids to train: name one of pq or opq-pq")
        folder, shape = context.folder / SCRATCH, (len(data.query_ids), self.depth)
        source: sources.NegativeSource
        if self.schedule == "static":
            negatives = read_negatives(context.inputs["negatives"].folder / layout.NEGATIVES)
            source = sources.NegativeTable(folder, shape, sources.mined(data, negatives, self.depth))
        elif self.schedule == "refreshed":
            lists = sources.lists_by(encoder, data, searcher, self.depth)
            source = sources.NegativeTable(folder, shape, lists, self.refresh_every)
        elif self.schedule == "random":
            source = sources.Uniform(len(data.corpus), self.depth, seed)
        else:
            source = sources.Searched(searcher, self.depth, encoder.collect)
        examples, watch = Examples(data, int(data.negatives is not None), seed), None
        if self.watch is not None:
            count, draws = min(self.watch.queries, len(examples)), generator(seed, "watch")
            watched = examples.of(np.sort(draws.choice(examples.queries, count, replace=False)))
            in_use, every, depth = partial(source.in_use, watched), self.watch.every, self.watch.depth
            watch = StalenessWatch(encoder, searcher, len(data.corpus), watched, in_use, every, depth)
        more: dict[str, Any] = {}
        if self.centroids == "trained":
            more["factor"] = self.centroid_learning_rate / self.options.learning_rate
        return (JpqTraining if more else AdoreTraining)(
            encoder=encoder,
            examples=examples,
            searcher=searcher,
            index=index.key,
            content_hash=data.corpus.content_hash,
            source=source,
            forced=self.forced_positives,
            dropout=self.retrieval_dropout,
            watch=watch,
            guide=data.guide,
            mask=None if data.guide is None else self.guided_mask,
            **more,
        )


class TrainRefreshed(training_data.DualOptions):
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
        """A miner of other lists, and an index that is not built from what the recipe's model makes."""
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
        """Answers, where they decide what is negative."""
        needing = {"refresh.without_answers": self.refresh.without_answers, "filters": needs_answers(self.filters)}
        if not fields.has_answers(collection, self.split):
            reason = f"needs answers, and split {self.split} has none: leave it out"
            yield from (f"{name}: {reason}" for name, needs in needing.items() if needs)

    def estimate(self, sizes: Sizes, split: str = "train", models: int = 1) -> Row:
        training, encoding = super().estimate(sizes, split, models), base.encoding(self.segments, sizes)
        backend = None if self.backend is None else configure("indexes", self.backend)
        rows, disk = 1 if self.segments is None else self.segments.count, training.disk + encoding.disk
        if isinstance(backend, EstimatedBackend):
            disk += backend.disk_bytes(sizes.documents, sizes.documents * rows, sizes.dimension)
        return replace(training, disk=disk)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> tuple[Any, Told]:
        from hardneg.training.methods.ance import AnceTraining
        from hardneg.training.refresh.mining import known_to_be_relevant

        refresh, refreshes = self.refresh, RefreshFolder(context.folder / SCRATCH / "refreshes")
        encoder, queries = inputs.open_learner(context), collection.queries(self.split)
        data = training_data.training_data(collection, queries, context.inputs.get("negatives"))
        data = replace(data, positives=known_to_be_relevant(data.positives, refresh), segments=self.segments)
        data = self.guided(context, self.ordered(context, data))
        supply = ending.enter_context(_supply(context, encoder, data, refreshes))
        way = AnceTraining(encoder, data, self.options, refresh, supply, self.terms(context, encoder))

        def told(result: Any) -> tuple[Facts, Facts]:
            facts = refresh_facts(result.history, refreshes.records(), way.waited, len(collection.corpus))
            context.progress.note(f"{context.name}: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
            by = "" if self.miner is None else f" by {self.miner.name}"
            often = f"{refresh.policy}, {refresh.every} steps"
            top = f"{refresh.negatives} a query of the model's own top {refresh.depth}{by}, refreshed: {often}"
            said = training_data.data_facts(context, collection.corpus, len(data.query_ids))
            return {**said, "Negatives": top, **self.terms_facts(context)}, facts

        return way, told


@contextmanager
def _supply(
    context: StageContext[TrainRefreshed], encoder: Any, data: TrainingData, refreshes: RefreshFolder
) -> Iterator[Any]:
    """The `RefreshProvider` of the training; ends the process beside this one, and gives back the threads it had."""
    import torch

    from hardneg.training.checkpoint import Checkpoints
    from hardneg.training.refresh.inferencer import Settings
    from hardneg.training.refresh.provider import BackgroundProvider, Process, SynchronousProvider

    spec, note, scratch = context.spec, context.progress.note, context.folder / SCRATCH
    every, had = spec.refresh.every or 1, torch.get_num_threads()
    first = 0 if data.negatives is None else every
    of_trainer, of_inferencer = spec.devices.threads(had * world().local_size, world())
    pseudo = training_data.pseudo_positives(context.inputs.get("negatives"))
    settings = Settings(
        model=encoder.spec,
        collection=str(context.inputs["dataset"].folder),
        split=spec.split,
        checkpoints=str(scratch),
        refreshes=str(refreshes.folder),
        options=spec.refresh,
        seed=spec.options.seed,
        first=first,
        devices=spec.devices.mining(encoder.device, world(), torch.cuda.device_count()),
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
