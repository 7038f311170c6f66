"""Stages `train-queries` and `train-refreshed`: training that searches for negatives while it runs."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from hardneg import fields
from hardneg.formats.negatives import read_negatives
from hardneg.mining.choosing import needs_answers
from hardneg.protocols import DenseSearcher, EstimatedBackend, RunJoiner, Searcher, StoredSearcher
from hardneg.records import errors, layout
from hardneg.registry import configure
from hardneg.runtime import distributed, seeding
from hardneg.stages import ArtifactInput, Facts, RecipeView, StageContext, StoredCollection, base, training, work
from hardneg.store import SCRATCH
from hardneg.training.checkpoint import Checkpoints, RefreshFolder
from hardneg.training.examples import Examples, TrainingData
from hardneg.training.options import Devices, RefreshOptions


class WatchOptions(BaseModel):
    """Compares the negatives of `queries` sampled queries with the model's top `depth` every `every` steps."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    every: int = Field(gt=0)
    depth: int = Field(default=layout.TOP_DEPTH, gt=0)
    queries: int = Field(default=200, gt=0)


class TrainQueries(training.EncoderOptions, base.IndexSpec):
    """Trains only the query encoder and, optionally, the index's centroids; the documents are not re-encoded."""

    version = 3
    purpose = "train the query encoder alone, against the passages in the index"
    gives = ("ranks",)
    inherits = ("seed",)
    stage: Literal["train-queries"]
    index: Annotated[
        fields.Name, fields.Reference(("index",), refuses={fields.Trait.SEGMENTS: "use an index without `segments`"})
    ] = Field(description="The index, which stays fixed.")
    split: fields.Name = Field(default="train", description="Split of the training queries.")
    schedule: Literal["dynamic", "static", "refreshed", "random"] = Field(
        default="dynamic",
        description="The source of documents: `dynamic` searches the index at each step, `static` uses the first "
        "`depth` of `negatives`, `refreshed` searches for all queries every `refresh_every` steps, `random` samples "
        "the corpus.",
    )
    negatives: Annotated[fields.Name | None, fields.Reference(("negatives",))] = Field(
        default=None, description="The negatives for schedule `static`."
    )
    refresh_every: int | None = Field(default=None, gt=0, description="Steps between `refreshed` searches.")
    depth: int = Field(default=layout.TOP_DEPTH, gt=0, description="Number of documents per query.")
    forced_positives: Literal["none_retrieved", "always", "never"] = Field(
        default="none_retrieved", description="When to append known positives that are missing from a list."
    )
    retrieval_dropout: bool = Field(
        default=True, description="Search with query vectors after dropout; if false, re-encode without dropout."
    )
    centroids: Literal["fixed", "trained"] = Field(
        default="fixed",
        description="`trained` also updates the centroids of a product-quantised index, and publishes the new index.",
    )
    centroid_learning_rate: float = Field(default=1e-4, gt=0, description="The learning rate of the centroids.")
    watch: WatchOptions | None = Field(default=None, description="Measures how stale the negatives are.")

    @model_validator(mode="after")
    def _complete(self) -> "TrainQueries":
        if self.segments is not None:
            raise ValueError("segments: the index has one vector per document; remove it")
        if self.centroids == "trained" and self.options.keep_every:
            raise ValueError("options.keep_every: cannot be combined with trained centroids; remove it")
        for name, schedule in (("negatives", "static"), ("refresh_every", "refreshed")):
            is_set = getattr(self, name) is not None
            if is_set != (self.schedule == schedule):
                problem = "cannot be combined with" if is_set else "missing; it is required by"
                raise ValueError(f"{name}: {problem} schedule {self.schedule}{'; remove it' if is_set else ''}")
        return self

    @property
    def also_makes(self) -> Mapping[str, str]:  # type: ignore[override]
        return {"index": layout.INDEX_FOLDER} if self.centroids == "trained" else {}

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {fields.Trait.COMPRESSED: recipe.name} if self.also_makes else {}

    def identity(self) -> dict[str, Any]:
        watch = {} if self.watch is None else {"watch": self.watch.model_dump(mode="json")}
        return {**super().identity(), **watch}

    def query_model(self, recipe: RecipeView) -> str:
        return recipe.name

    def estimate(self, sizes: base.Sizes, split: str = "train", models: int = 2) -> base.Row:
        return super().estimate(sizes, self.split, models)

    def open_index(self, source: ArtifactInput, collection: StoredCollection, options: Any, progress: Any) -> Searcher:
        from hardneg.indexes.product import PqSearcher

        return PqSearcher.open(source.part("index")).using(options, progress)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.encoders.encoder import split
        from hardneg.training.methods.adore import JpqTraining

        encoder = split(work.open_learner(context))
        queries, negatives = collection.queries(self.split), context.inputs.get("negatives")
        data = training.training_data(collection, queries, negatives)
        way = self._method(context, collection, data, encoder)

        def told(result: Any) -> tuple[Facts, Facts]:
            if isinstance(way, JpqTraining):
                way.searcher.write_with_centroids(context.folder / layout.INDEX_FOLDER, way.centroids)
            card = {
                **work.data_facts(context, data.corpus, len(data.query_ids)),
                "Trained": f"the query encoder alone, against the index {context.inputs['index'].name}",
                "Negatives": f"{self.schedule}, {self.depth} per query",
            }
            return card, {}

        return way, told

    def _method(self, context: StageContext[Any], collection: StoredCollection, data: Any, encoder: Any) -> Any:
        from hardneg.indexes.product import PqSearcher
        from hardneg.training import validation
        from hardneg.training.methods import adore

        index, seed = context.inputs["index"], self.options.seed
        where = f"{context.name}: index {index.name}"
        searcher = work.open_searcher(index, collection, context.device, None, few=self.schedule == "dynamic")
        if not isinstance(searcher, DenseSearcher | StoredSearcher):
            raise errors.UsageError(f"{where} stores no vectors to score; use an index of an encode stage's vectors")
        if self.centroids == "trained" and not isinstance(searcher, PqSearcher):
            raise errors.UsageError(f"{where} has no centroids to train; use a pq or opq-pq index")
        folder, shape = context.folder / SCRATCH, (len(data.query_ids), self.depth)
        source: adore.NegativeSource
        if self.schedule == "static":
            negatives = read_negatives(context.inputs["negatives"].folder / layout.NEGATIVES)
            source = adore.NegativeTable(folder, shape, adore.mined_lists(data, negatives, self.depth))
        elif self.schedule == "refreshed":
            lists = adore.searched_lists(encoder, data, searcher, self.depth)
            source = adore.NegativeTable(folder, shape, lists, self.refresh_every)
        elif self.schedule == "random":
            source = adore.RandomNegatives(len(data.corpus), self.depth, seed)
        else:
            source = adore.DynamicNegatives(searcher, self.depth, encoder.collect)
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
    """Trains a dual encoder on negatives that are re-mined with the current weights during training."""

    version = 2
    purpose = "train the model with hard negatives that are refreshed during training"
    stage: Literal["train-refreshed"]
    split: fields.Name = Field(default="train", description="Split of the training queries.")
    negatives: Annotated[fields.Name | None, fields.Reference(("negatives",))] = Field(
        default=None,
        description="Negatives to use until the first refresh; default: mine with the initial model before step 1.",
    )
    refresh: Annotated[RefreshOptions, AfterValidator(fields.without_problems)] = Field(
        description="The schedule of refreshes and the choice of negatives."
    )
    miner: fields.OwnMinerSetting = Field(
        default=None, description="Miner to use on the model's top documents, instead of `refresh.choice`."
    )
    filters: fields.FilterSettings = Field(default=(), description="Filters to apply before the miner, in order.")
    devices: Annotated[Devices, AfterValidator(fields.without_problems)] = Field(
        default=Devices(), json_schema_extra=fields.FREE, description="Devices for training and for refreshes."
    )
    backend: fields.OwnIndexSetting = Field(
        default=None,
        json_schema_extra=fields.LATER,
        description="The index that each refresh builds and searches; default: exact search.",
    )

    @model_validator(mode="after")
    def _mines(self) -> "TrainRefreshed":
        if self.miner is not None and self.refresh.choice != "sampled":
            raise ValueError("refresh.choice: cannot be combined with miner; remove one of them")
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
            problem = f"{self.backend.name} indexes text, so a refresh would not change it"
            yield f"backend: {problem}; remove it, or use an index built from {words['vectors']}"
        elif self.backend is not None and family is not None and source not in (None, family.form):
            problem = f"{self.backend.name} is built from {words.get(str(source), source)}"
            yield f"backend: {problem}, but the recipe's model has {words[family.form]}; use another index"
        if recipe.collection is not None and not fields.has_answers(recipe.collection, self.split):
            needing = {"refresh.without_answers": self.refresh.without_answers, "filters": needs_answers(self.filters)}
            reason = f"needs answers, but split {self.split} has none; remove it"
            yield from (f"{name}: {reason}" for name, needs in needing.items() if needs)

    def estimate(self, sizes: base.Sizes, split: str = "train", models: int = 1) -> base.Row:
        row, encoding = super().estimate(sizes, split, models), base.encoding(self.segments, sizes)
        backend = None if self.backend is None else configure("indexes", self.backend)
        rows, disk = 1 if self.segments is None else self.segments.count, row.disk + encoding.disk
        if isinstance(backend, EstimatedBackend):
            disk += backend.disk_bytes(sizes.documents, sizes.documents * rows, sizes.dimension)
        return replace(row, disk=disk)

    def opened(self, context: StageContext[Any], collection: StoredCollection, ending: ExitStack) -> training.Opened:
        from hardneg.training.methods.ance import AnceTraining, refresh_facts
        from hardneg.training.refresh import known_to_be_relevant

        refresh, refreshes = self.refresh, RefreshFolder(context.folder / SCRATCH / "refreshes")
        encoder, queries = work.open_learner(context), collection.queries(self.split)
        data = training.training_data(collection, queries, context.inputs.get("negatives"))
        data = replace(data, positives=known_to_be_relevant(data.positives, refresh), segments=self.segments)
        data = self.with_guide(context, self.with_order(context, data))
        supply = ending.enter_context(_supply(context, encoder, data, refreshes))
        way = AnceTraining(encoder, data, self.options, refresh, supply, self.terms(context, encoder))

        def told(result: Any) -> tuple[Facts, Facts]:
            facts = refresh_facts(result.history, refreshes.records(), way.waited, len(collection.corpus))
            context.progress.note(f"{context.name}: " + ", ".join(f"{name} {value}" for name, value in facts.items()))
            by = "" if self.miner is None else f" by {self.miner.name}"
            often = f"{refresh.policy}, {refresh.every} steps"
            top = f"{refresh.negatives} per query from the model's own top {refresh.depth}{by}, refreshed: {often}"
            said = work.data_facts(context, collection.corpus, len(data.query_ids))
            return {**said, "Negatives": top, **self.terms_facts(context)}, facts

        return way, told


@contextmanager
def _supply(
    context: StageContext[TrainRefreshed], encoder: Any, data: TrainingData, refreshes: RefreshFolder
) -> Iterator[Any]:
    """Yield the `RefreshProvider`; at the end, stop the second process and restore the number of threads."""
    import torch

    from hardneg.training.methods.ance import BackgroundProvider, Process, SynchronousProvider
    from hardneg.training.refresh import Settings

    spec, note, scratch = context.spec, context.progress.note, context.folder / SCRATCH
    every, had = spec.refresh.every or 1, torch.get_num_threads()
    first = 0 if data.negatives is None else every
    of_trainer, of_inferencer = spec.devices.threads(had * distributed.world().local_size, distributed.world())
    pseudo = work.pseudo_positives(context.inputs.get("negatives"))
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
