"""Fields and cells of tables that several analyses share."""

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from hardneg.plugin import MEASURED, DenseSearcher, MetricName, Name, Option, Reference, Trait

_SHOWN = 120
_BLOCK = 4096
ONE_VECTOR = dict.fromkeys(
    (Trait.TEXTS, Trait.SEGMENTS, Trait.WEIGHTS, Trait.TOKEN_VECTORS),
    "name one of an encoder with one vector a document",
)
_FORMS = dict.fromkeys((Trait.WEIGHTS, Trait.TOKEN_VECTORS), "name one of an encoder with one vector a text")
_VECTORS = {
    Trait.TEXTS: "search it and name the run in `runs`",
    Trait.SEGMENTS: "name one without `segments`",
    **_FORMS,
}
Indexes = Annotated[dict[Name, Name], Reference(("index",), _VECTORS), Option("index")]
"""Indexes with one vector a document, by label; on the command line folders."""

Encoders = Annotated[dict[Name, Name], Reference(("model",)), Option("model", placed=True)]
"""Models of queries by labels of indexes; by default the models that encoded the indexes."""

Metric = Annotated[MetricName, Option("metric", same=("metrics",))]

MeasuredRuns = Annotated[dict[Name, Name], MEASURED, Option("run")]
"""Runs that metrics are made of, by label."""

Pass = Callable[[], Iterable[tuple[int, NDArray[np.float32]]]]
"""Starts a pass over a corpus: (first row, float32 [n, d]) in row order."""

Points = list[tuple[float, float]]
"""(step, value), in the order of the steps."""


def corpus_pass(searcher: DenseSearcher, count: int) -> Pass:
    """Passes over the `count` vectors that an index holds, block by block."""
    starts = range(0, count, _BLOCK)
    return lambda: ((start, searcher.vectors(np.arange(start, min(start + _BLOCK, count)))) for start in starts)


def check_model_labels(indexes: Mapping[str, str], models: Mapping[str, str]) -> None:
    """For validators: raises ValueError where a model has the label of no index."""
    if unknown := sorted(set(models) - set(indexes)):
        raise ValueError(f"no index is labelled {', '.join(unknown)}; indexes has {', '.join(indexes)}")


def shortened(text: str) -> str:
    """A text for a table's cell."""
    return text if len(text) <= _SHOWN else text[:_SHOWN] + "…"


def percent(share: float | None) -> str:
    """A share in percent; a dash where there is none."""
    return "–" if share is None else f"{share:.1%}"
