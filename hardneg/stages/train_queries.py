"""Verb `train-queries`: the query encoder trained alone, against what it finds in a fixed index."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from hardneg.fields import Name, Reference, Trait
from hardneg.formats.collection import StoredCollection
from hardneg.formats.negatives import read_negatives
from hardneg.protocols import DenseSearcher, Searcher, StoredSearcher
from hardneg.records import INDEX_FOLDER, NEGATIVES, TOP_DEPTH, UsageError
from hardneg.runtime import Progress, generator
from hardneg.stages.shared.context import ArtifactInput, StageContext
from hardneg.stages.shared.inputs import open_learner, open_searcher
from hardneg.stages.shared.stage_spec import IndexSpec, RecipeView, Row, Sizes
from hardneg.stages.shared.train_config import EncoderOptions, Told
from hardneg.stages.shared.training_data import data_facts, encoder_training, training_data
from hardneg.store import SCRATCH
from hardneg.training.examples import Examples, TrainingData

if TYPE_CHECKING:
    from hardneg.encoders.encoder import Encoder
    from hardneg.indexes.kernels.exact.exact import ExactOptions
    from hardneg.training.loop import TrainingResult
    from hardneg.training.methods.adore import AdoreTraining


class WatchOptions(BaseModel):
    """What to note every so many steps of some training queries: how the lists in use age, and the ranking.

    depth: the top of the index that they are compared with. queries: how many to look at.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: int = Field(gt=0)
    depth: int = Field(default=TOP_DEPTH, gt=0)
    queries: int = Field(default=200, gt=0)


class TrainQueries(EncoderOptions, IndexSpec):
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
    depth: int = Field(default=TOP_DEPTH, gt=0, description="Documents a query.")
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
        needs = {"negatives": "static", "refresh_every": "refreshed"}
        for name, schedule in needs.items():
            is_set = getattr(self, name) is not None
            if is_set != (self.schedule == schedule):
                advice = f"leave out {name}" if is_set else f"give {name}"
                raise ValueError(f"schedule {self.schedule}: {advice}")
        return self

    @property
    def parts(self) -> Mapping[str, str]:
        return {**super().parts} | ({"index": INDEX_FOLDER} if self.centroids == "trained" else {})

    def traits(self, recipe: RecipeView) -> Mapping[str, str]:
        return {Trait.COMPRESSED: recipe.name} if "index" in self.parts else {}

    def identity(self) -> dict[str, Any]:
        identity = super().identity()
        if self.watch is not None:
            identity["watch"] = self.watch.model_dump(mode="json")
        return identity

    def query_model(self, recipe: RecipeView) -> str:
        return recipe.name

    def estimate(self, sizes: Sizes) -> Row:
        return encoder_training(self, sizes, self.split, models=2)

    def open_index(
        self, source: ArtifactInput, collection: StoredCollection, options: "ExactOptions", progress: "Progress | None"
    ) -> "Searcher":
        from hardneg.indexes.backends.product import PqSearcher

        return PqSearcher.open(source.part("index")).using(options, progress)

    @contextmanager
    def opened(
        self, context: StageContext[Any], collection: StoredCollection
    ) -> "Iterator[tuple[AdoreTraining, Told]]":
        from hardneg.encoders.encoder import split
        from hardneg.training.methods.adore import JpqTraining

        encoder = split(open_learner(context, context.device))
        data = training_data(collection, collection.queries(self.split), context.inputs.get("negatives"))
        way = _approach(context, collection, data, encoder)

        def told(result: "TrainingResult") -> tuple[Mapping[str, object], Mapping[str, object]]:
            if isinstance(way, JpqTraining):
                way.searcher.write_with_centroids(context.folder / INDEX_FOLDER, way.centroids)
            card = {
                **data_facts(context, data.corpus, len(data.query_ids)),
                "Trained": f"the query side alone, on the index {context.inputs['index'].name}",
                "Negatives": f"{self.schedule}, {self.depth} a query",
            }
            return card, {}

        yield way, told


def _approach(
    context: StageContext[TrainQueries], collection: StoredCollection, data: TrainingData, encoder: "Encoder"
) -> "AdoreTraining":
    from hardneg.indexes.backends.product import PqSearcher
    from hardneg.training.methods import adore
    from hardneg.training.validation import StalenessWatch

    spec, index = context.spec, context.inputs["index"]
    searcher = open_searcher(index, collection, context.device, None, few=spec.schedule == "dynamic")
    if not isinstance(searcher, DenseSearcher | StoredSearcher):
        advice = "holds nothing of documents that queries could be scored with"
        raise UsageError(f"{context.name}: index {index.name} {advice}: name an encode stage or an index of one")
    if spec.centroids == "trained" and not isinstance(searcher, PqSearcher):
        raise UsageError(f"{context.name}: index {index.name} has no centroids to train: name one of pq or opq-pq")
    folder, shape = context.folder / SCRATCH, (len(data.query_ids), spec.depth)
    source: adore.NegativeSource
    if spec.schedule == "static":
        negatives = read_negatives(context.inputs["negatives"].folder / NEGATIVES)
        source = adore.NegativeTable(folder, shape, adore.mined(data, negatives, spec.depth))
    elif spec.schedule == "refreshed":
        lists = adore.lists_by(encoder, data, searcher, spec.depth)
        source = adore.NegativeTable(folder, shape, lists, spec.refresh_every)
    elif spec.schedule == "random":
        source = adore.Uniform(len(data.corpus), spec.depth, spec.options.seed)
    else:
        source = adore.Searched(searcher, spec.depth, encoder.collect)
    examples, watch = Examples(data, int(data.negatives is not None), spec.options.seed), None
    if spec.watch is not None:
        count, draws = min(spec.watch.queries, len(examples)), generator(spec.options.seed, "watch")
        watched = examples.of(np.sort(draws.choice(examples.queries, count, replace=False)))
        in_use, every, depth = partial(source.in_use, watched), spec.watch.every, spec.watch.depth
        watch = StalenessWatch(encoder, searcher, len(data.corpus), watched, in_use, every, depth)
    more: dict[str, Any] = {"searcher": searcher}
    if spec.centroids == "trained":
        more["factor"] = spec.centroid_learning_rate / spec.options.learning_rate
    return (adore.JpqTraining if "factor" in more else adore.AdoreTraining)(
        encoder=encoder,
        examples=examples,
        index=index.key,
        content_hash=data.corpus.content_hash,
        source=source,
        forced=spec.forced_positives,
        dropout=spec.retrieval_dropout,
        watch=watch,
        **more,
    )
