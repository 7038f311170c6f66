"""Verb `train`: a dual encoder trained on mined negatives, of one collection or of several mixed ones."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from hardneg.fields import LATER, Name, Reference, marked_references
from hardneg.formats.collection import StoredCollection
from hardneg.records import DATASET, counted
from hardneg.stages.shared.context import StageContext
from hardneg.stages.shared.inputs import open_collection, open_learner
from hardneg.stages.shared.stage_spec import RecipeView, Row, Sizes
from hardneg.stages.shared.train_config import DualOptions, TeacherOptions, Told
from hardneg.stages.shared.training_data import (
    data_facts,
    encoder_training,
    examples_of,
    ordered,
    taught,
    terms_facts,
    terms_of,
    with_guide,
)
from hardneg.store import options_in_key
from hardneg.training.examples import TrainingData
from hardneg.training.sources import Mixture, mixed

if TYPE_CHECKING:
    from hardneg.training.loop import TrainingResult
    from hardneg.training.methods.dual_encoder import DualEncoderTraining

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
        if not self.datasets:
            if self.mixing != MixingOptions():
                yield "mixing: there is nothing to mix; name collections in datasets, or leave it out"
            return
        for name in _OF_ONE:
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
            if source.negatives in recipe.stages and source.dataset is not None:
                own = _collection_of(str(source.negatives), recipe)
                if own != source.dataset:
                    yield f"datasets.{name}.dataset: {source.negatives!r} is of {own!r}; leave this out"

    def why(self) -> str:
        others = "the relevant passages of the other queries in the batch"
        mined = self.negatives is not None or self.datasets
        return self.purpose if mined else self.purpose.replace("the hard negatives", others)

    def estimate(self, sizes: Sizes) -> Row:
        if self.datasets:  # the queries of all are learnt from
            names = (f"datasets.{name}.dataset" for name in self.datasets)
            queries = sum(sizes.collections.get(name, sizes).queries("train") for name in names)
            sizes = replace(sizes, splits={**sizes.splits, "train": queries})
        return encoder_training(self, sizes)

    @contextmanager
    def opened(
        self, context: StageContext[Any], collection: StoredCollection
    ) -> "Iterator[tuple[DualEncoderTraining, Told]]":
        from hardneg.training.methods.dual_encoder import DualEncoderTraining

        encoder, lacking = open_learner(context, context.device), dict[str, int]()
        if self.datasets:
            data: TrainingData | Mixture = self._mixture(context)
        else:
            data, lacking = taught(context, examples_of(collection, context.inputs.get("negatives")))
            if "augmented" in context.inputs:
                # without the queries that these negatives lack: whoever made them has counted what was left out
                more = examples_of(collection, context.inputs["augmented"])
                listed = set() if more.negatives is None else {*more.negatives.query_ids}
                data = mixed(data, more.only([row for row, name in enumerate(more.query_ids) if name in listed]))
            data = with_guide(context, ordered(context, replace(data, segments=self.segments)))

        def told(result: "TrainingResult") -> tuple[Mapping[str, object], Mapping[str, object]]:
            if isinstance(data, TrainingData):
                return {**self._said(context, collection), **terms_facts(context)}, lacking
            drawn = data.examples(self.options).counts(result.steps * self.options.accumulate)
            facts = {f"examples of {name}": count for name, count in drawn.items()}
            return {**self._said_of(data, drawn), **terms_facts(context)}, facts

        yield DualEncoderTraining(encoder, data, self.options, terms_of(context, encoder)), told

    def _said(self, context: "StageContext[Train]", collection: StoredCollection) -> dict[str, object]:
        negatives, more = context.inputs.get("negatives"), context.inputs.get("augmented")
        if negatives is None:
            queries, chosen = len(collection.queries("train").query_ids), "the other queries' documents"
        else:
            queries = negatives.count("queries")
            maker = negatives.plugins.get("miner", negatives.name)
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

    def _said_of(self, mixture: Mixture, drawn: Mapping[str, int]) -> dict[str, object]:
        """drawn: how many examples of each source."""
        facts: dict[str, object] = {}
        for name, source in mixture.sources.items():
            queries = counted(len(source.query_ids), "query", "queries")
            examples, passages = counted(drawn[name], "example"), counted(len(source.corpus), "passage")
            facts[f"Dataset {name}"] = f"{passages}, {queries}; {examples}"
        by = "one a batch" if mixture.one_source else "mixed in a batch"
        facts["Mixing"] = f"temperature {mixture.temperature:g}, {by}"
        width = self.options.negatives_per_query
        facts["Negatives"] = f"{width} a query, mined apart" if width else "the other queries' documents"
        return facts


def _collection_of(negatives: str, recipe: RecipeView) -> str:
    stage = recipe.stages.get(negatives)
    return DATASET if stage is None or stage.dataset is None else stage.dataset
