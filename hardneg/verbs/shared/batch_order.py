"""Which queries share a batch: the order made for a training."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hardneg.batches.batch_order import BatchOrder, TrainingQueries
from hardneg.formats.queries import read_sources
from hardneg.formats.runs import lists_in_order
from hardneg.records.layout import RUN
from hardneg.records.types import RankedList
from hardneg.runtime.distributed import barrier, world
from hardneg.store.artifacts import SCRATCH
from hardneg.store.atomic_write import replacing
from hardneg.training.examples import TrainingData
from hardneg.training.query_order import QueryOrder
from hardneg.verbs.shared.context import StageContext
from hardneg.verbs.shared.encoded_queries import encoded_queries
from hardneg.verbs.shared.training_options import Batching


def ordered(context: "StageContext[Batching]", data: TrainingData) -> TrainingData:
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
            groups = plugin.groups(queries, size, seed=context.spec.options.seed)
            with replacing(file) as out:
                np.lib.format.write_array(out, np.ascontiguousarray(groups, "<i8"), allow_pickle=False)
    barrier()
    return replace(data, order=QueryOrder(plugin, np.load(file, mmap_mode="r", allow_pickle=False), size))


def _needed(context: "StageContext[Batching]", plugin: BatchOrder, data: TrainingData) -> dict[str, Any]:
    sources: dict[str, Callable[[], NDArray[np.float32] | Iterable[RankedList]]] = {
        "vectors": lambda: encoded_queries(
            context, context.inputs["batches_from.model"], data.texts, "batches-queries"
        ),
        "run": lambda: lists_in_order(context.inputs["batches_from"].folder / RUN, data.query_ids),
    }
    needs: dict[str, Any] = {need: sources[need]() for need in plugin.needs}
    if (file := context.spec.batches_sources) is not None:
        needs["sources"] = read_sources(Path(file).expanduser(), data.query_ids)
    return needs
