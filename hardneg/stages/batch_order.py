"""Which queries share a batch: the fields of the stages that say it, and the order made for a training."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from hardneg.artifacts import SCRATCH
from hardneg.atomic_write import replacing
from hardneg.batches.protocol import BatchOrder, TrainingQueries
from hardneg.data.queries import read_sources
from hardneg.data.runs import lists_in_order
from hardneg.distributed import barrier, world
from hardneg.fields import FREE, LATER, InputFile, Name, PluginKind, Reference, Setting
from hardneg.layout import RUN
from hardneg.registry import configure, needs_of
from hardneg.stages.context import StageContext
from hardneg.stages.encoded_queries import NOT_ONE_VECTOR, encoded_queries
from hardneg.stages.spec import RecipeView
from hardneg.stages.training_common import EncoderTrainingSpec
from hardneg.training.examples import TrainingData
from hardneg.training.query_order import QueryOrder
from hardneg.types import PluginSetting, RankedList

_FROM = "batches_from"
_MODEL = "batches_from.model"
_MADE_BY = {"vectors": ("index", "an encode stage"), "run": ("run", "a run of the training queries")}
"""What a plugin may need: what a stage makes that has it, and the same in words."""


def _unless_shuffled(setting: PluginSetting | None) -> PluginSetting | None:
    """None for what is done without a word."""
    return None if setting == PluginSetting("shuffled") else setting


class BatchedSpec(EncoderTrainingSpec):
    """What the stages have in common that may say which queries share a batch.

    batches: the order of the queries; by default `shuffled`. batches_from: what that is made by: an encode stage, whose
    model then encodes the training queries, or a run of them. batches_sources: a file that says which source each query
    is of.
    """

    batches: Annotated[Setting | None, AfterValidator(_unless_shuffled), PluginKind("batches")] = Field(
        default=None, json_schema_extra=LATER
    )
    batches_from: Annotated[Name | None, Reference(("index", "run"), refuses=NOT_ONE_VECTOR)] = Field(
        default=None, json_schema_extra=LATER
    )
    batches_sources: Annotated[Name | None, InputFile("a query's id, a tab and the name of its source a line")] = Field(
        default=None, json_schema_extra=FREE
    )

    def implied(self, recipe: RecipeView) -> Mapping[str, str]:
        """The model that encodes the queries for the order."""
        model = None if self.batches_from is None else recipe.query_model(self.batches_from)
        return {**super().implied(recipe), **({} if model is None else {_MODEL: model})}

    def problems(self, recipe: RecipeView) -> Iterator[str]:
        """Also an order that lacks what it is made by, or has what it does not take."""
        if self.batches is not None and self.options.iterate_negatives:
            yield "batches: options.iterate_negatives has a query's examples in a row; leave one of the two out"
        yield from _problems_of_source(self, recipe)
        yield from super().problems(recipe)

    def missing(self, collection: Mapping[str, Any]) -> Iterator[str]:
        """More groups of the queries than there are queries, whichever split these are of."""
        yield from super().missing(collection)
        refuses = None if self.batches is None else getattr(configure("batches", self.batches), "refuses", None)
        most = max((counts["queries"] for counts in collection["splits"].values()), default=0)
        if refuses is not None and (told := refuses(most)):
            yield f"batches: {told}"


def _problems_of_source(spec: BatchedSpec, recipe: RecipeView) -> Iterator[str]:
    plugin = recipe.plugin("batches")
    if spec.batches is not None and plugin is None:
        return  # a line of its own says why
    needs = needs_of(plugin)
    named = None if spec.batches_from is None else recipe.stages.get(spec.batches_from)
    if not needs and spec.batches_from is not None:
        what = "shuffled" if spec.batches is None else spec.batches.name
        yield f"{_FROM}: batches {what} are made by the queries alone; leave it out"
    if spec.batches_sources is not None and "sources" not in getattr(plugin, "takes", ()):
        what = "shuffled" if spec.batches is None else spec.batches.name
        yield f"batches_sources: batches {what} have no use for sources; leave it out, or take one-source"
    for need in needs:
        kind, words = _MADE_BY[need]
        if named is None and spec.batches_from is None and spec.batches is not None:
            yield f"{_FROM}: missing; {spec.batches.name} is made by {need}: name {words}"
        elif named is not None and kind not in named.parts:
            yield f"{_FROM}: {spec.batches_from!r} has no {need}; name {words}"


def ordered(context: "StageContext[BatchedSpec]", data: TrainingData) -> TrainingData:
    """The examples in the order that the stage says.

    What the order is made of is made once, by the first process, and kept among the stage's checkpoints, so that all
    processes and a training that is gone on with have the same.

    Raises:
        DataError: the run is of other queries, or a query has no source.
        UsageError: the order cannot be made of these queries.
    """
    if context.spec.batches is None:
        return data
    plugin, size = context.plugin("batches", BatchOrder), context.spec.options.batch_size
    queries = replace(TrainingQueries(data.query_ids, data.positives), **_needed(context, plugin, data))
    file = context.folder / SCRATCH / "batches.npy"
    if world().first and not file.exists():
        with context.progress.task("batches", None, "queries"):
            _keep(file, plugin.groups(queries, size, seed=context.spec.options.seed))
    barrier()
    return replace(data, order=QueryOrder(plugin, np.load(file, mmap_mode="r", allow_pickle=False), size))


def _needed(context: "StageContext[BatchedSpec]", plugin: BatchOrder, data: TrainingData) -> dict[str, Any]:
    made: dict[str, Callable[[], NDArray[np.float32] | Iterable[RankedList]]] = {
        "vectors": lambda: encoded_queries(context, context.inputs[_MODEL], data.texts, "batches-queries"),
        "run": lambda: lists_in_order(context.inputs[_FROM].folder / RUN, data.query_ids),
    }
    found: dict[str, Any] = {need: made[need]() for need in plugin.needs}
    if (file := context.spec.batches_sources) is not None:
        found["sources"] = read_sources(Path(file).expanduser(), data.query_ids)
    return found


def _keep(file: Path, groups: NDArray[np.int64]) -> None:
    with replacing(file) as out:
        np.lib.format.write_array(out, np.ascontiguousarray(groups, "<i8"), allow_pickle=False)
