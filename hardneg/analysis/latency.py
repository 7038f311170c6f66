"""How long one query takes, alone and among many: encoding it, and searching an index."""

import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
from pydantic import Field

from hardneg.analysis.base import Encoders, Indexes, OfIndexes
from hardneg.analysis.inputs import AnalysisInputs, System
from hardneg.records.depths import LIST_DEPTH
from hardneg.records.errors import UsageError
from hardneg.report.figure import bar_width, bars, figure, plain_axes
from hardneg.report.table import Table

_PARTS = ("encode", "search", "total")
_WARM_UP = 2


class Latency(OfIndexes):
    """Time single queries: encoding one and searching an index for it, and the same for all of them at once.

    Example: hardneg analyze latency --queries FILE --index FOLDER --model NAME
    """

    name = "latency"
    title = "time of one query"
    explained = (
        "One query: the median over queries that come one after the other, when the index and the model are open. Of "
        "a batch: all of them at once, divided by their number."
    )
    paper = "ANCE, Table 5"
    asks = ("queries", "seed", "device")

    indexes: Indexes = Field(min_length=1, description="A dense index folder.")
    models: Encoders = Field(default_factory=dict, description="The query model of each index, in their order.")
    sample: int = Field(50, gt=0, description="How many queries, drawn by the seed.")
    depth: int = Field(LIST_DEPTH, gt=0, description="How many documents of each.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """By index the milliseconds of one query, and of one of a batch; see `latency`.

        Raises:
            UsageError: there are no queries.
        """
        texts = list(inputs.queries(inputs.split).values())
        if not texts:
            raise UsageError(f"{inputs.location('queries')}: there are none in split {inputs.split}")
        drawn = np.random.default_rng(inputs.seed).permutation(len(texts))[: self.sample]
        queries = [texts[position] for position in drawn]
        results = {
            label: latency(inputs.system(f"indexes.{label}", f"models.{label}"), queries, self.depth)
            for label in self.indexes
        }
        return {"queries": len(queries), "depth": self.depth, "indexes": results}

    def table(self, results: Any) -> Table:
        """One row an index and way of asking."""
        rows = [
            [label, words, *(f"{measured[way][part]:,.3g}" for part in _PARTS)]
            for label, measured in results["indexes"].items()
            for way, words in (("one", "one query"), ("batch", f"one of {results['queries']} at once"))
        ]
        return Table(
            ("index", "queries", "encode (ms)", f"search, {results['depth']} deep (ms)", "total (ms)"), rows, 2
        )

    def explain(self, results: Any) -> str:
        """With where it was measured."""
        devices = dict.fromkeys(each["device"] for each in results["indexes"].values())
        return f"{self.explained} Measured on: {', '.join(devices)}."

    def draw(self, results: Any, paths: Sequence[Path]) -> None:
        """A panel for one query and one for a batch, one bar an index and part."""
        with figure(paths, 2, width=bar_width(3 * len(results["indexes"]))) as panels:
            for axes, way in zip(panels, ("one", "batch"), strict=True):
                times = {
                    f"{label}: {name}": each[way][name] for label, each in results["indexes"].items() for name in _PARTS
                }
                bars(axes, times, {label: f"{value:.3g}" for label, value in times.items()})
                plain_axes(axes, "one query alone" if way == "one" else "one query of a batch", "", "milliseconds")


class _Times(NamedTuple):
    encode: float
    search: float


def latency(system: System, texts: Sequence[str], depth: int) -> dict[str, Any]:
    """Milliseconds a query: `one`, the medians over `texts` asked one by one; `batch`, all at once over their number.

    Each has `encode`, `search` and `total`. The first two queries are asked twice, and the first times are not counted.

    Source: ANCE (Xiong et al., ICLR 2021), table 5.
    """
    for text in texts[:_WARM_UP]:
        _timed(system, [text], depth)
    alone = [_timed(system, [text], depth) for text in texts]
    together = _timed(system, texts, depth)
    one = {"encode": median(each.encode for each in alone), "search": median(each.search for each in alone)}
    batch = {"encode": together.encode / len(texts), "search": together.search / len(texts)}
    return {
        "device": system.device,
        "one": {**one, "total": median(each.encode + each.search for each in alone)},
        "batch": {**batch, "total": sum(batch.values())},
    }


def _timed(system: System, texts: Sequence[str], depth: int) -> _Times:
    began = time.perf_counter()
    vectors = system.encode(texts)
    encoded = time.perf_counter()
    system.searcher.search(vectors, depth)
    return _Times(1000 * (encoded - began), 1000 * (time.perf_counter() - encoded))
