"""Indexes: their size on disk, and the time of one query."""

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import Field, model_validator

from hardneg.plugin import (
    MANIFEST,
    Analysis,
    AnalysisInputs,
    DataError,
    Name,
    Option,
    Reference,
    System,
    Table,
    UsageError,
)
from hardneg_papers.analyses.shared import Encoders, Indexes, check_model_labels

_DOC_IDS = "docid"
_ASIDE = {_DOC_IDS, MANIFEST, "shards.json", "shard.json"}
_PARTS = ("encode", "search", "total")


class IndexSizes(Analysis):
    """Show the size of indexes on disk, and relative to the first.

    Example: hardneg analyze sizes --index flat=index --index pq=index-pq
    """

    name = "sizes"
    title = "index sizes"
    explained = "Bytes on disk without the ids; what an index has once, such as centroids, counts too."
    paper = "STAR/ADORE, Table 5"
    beside: ClassVar[Mapping[str, slice]] = {"matrix": slice(1, None), "costs": slice(1, 3)}
    drawn = slice(1, 2)

    indexes: Annotated[dict[Name, Name], Reference(("index",)), Option("index")] = Field(
        min_length=1, description="An index folder; of dense ones the vectors are counted."
    )

    def measure(self, inputs: AnalysisInputs) -> list[dict[str, Any]]:
        """Of each index its size, against the first; of one of texts the documents count as vectors.

        `vectors`: how many it holds, by its ids, a line each. `bytes`: its files without the ids. `bytes_per_vector`:
        all of its bytes, the centroids too, over its vectors. `ratio`: its bytes over those of the first index.

        Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 5.
        """
        results: list[dict[str, Any]] = []
        for label in self.indexes:
            folder, vectors = inputs.index(f"indexes.{label}")
            if (folder / _DOC_IDS).is_file():
                with (folder / _DOC_IDS).open("rb") as file:
                    vectors = sum(1 for line in file if line.strip())
            if vectors is None:
                raise DataError(f"{folder}: no dense index (no file {_DOC_IDS}): name a folder of `hardneg encode`")
            files = [path for path in folder.rglob("*") if path.is_file() and path.name not in _ASIDE]
            size = sum(path.stat().st_size for path in files)
            first = results[0]["bytes"] if results else size
            shares = {"bytes_per_vector": size / max(1, vectors), "ratio": size / max(1, first)}
            results.append({"index": label, "vectors": vectors, "bytes": size, **shares})
        return results

    def table(self, results: Any) -> Table:
        rows = [
            [row["index"], f"{row['bytes'] / 1e6:,.2f}", f"{row['bytes_per_vector']:,.1f}", f"{row['ratio']:.1%}"]
            for row in results
        ]
        return Table(("index", "MB", "bytes a vector", "of the first"), rows)


class Latency(Analysis):
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
    drawn = slice(2, None)

    indexes: Indexes = Field(min_length=1, description="A dense index folder.")
    models: Encoders = Field(default_factory=dict, description="The query model of each index, in their order.")
    sample: int = Field(50, gt=0, description="How many queries, drawn by the seed.")
    depth: int = Field(100, gt=0, description="How many documents of each.")

    @model_validator(mode="after")
    def _known(self) -> "Latency":
        check_model_labels(self.indexes, self.models)
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Models in the order of the indexes; one alone is that of all. Raises UsageError: another number of them."""
        indexes, models = values.get("indexes", {}), list(values.get("models", {}).values())
        if len(models) not in (1, len(indexes)):
            message = f"{len(models)} {{models}} for {len(indexes)} {{indexes}}: give one of each"
            raise UsageError(f"analyze latency: {message}", "models", "indexes")
        return {**values, "models": dict(zip(indexes, models * (len(indexes) if len(models) == 1 else 1), strict=True))}

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
        rows = [
            [label, words, *(f"{measured[way][part]:,.3g}" for part in _PARTS)]
            for label, measured in results["indexes"].items()
            for way, words in (("one", "one query"), ("batch", f"one of {results['queries']} at once"))
        ]
        head = ("index", "queries", "encode (ms)", f"search, {results['depth']} deep (ms)", "total (ms)")
        return Table(head, rows, 2)

    def explain(self, results: Any) -> str:
        devices = dict.fromkeys(each["device"] for each in results["indexes"].values())
        return f"{self.explained} Measured on: {', '.join(devices)}."


def latency(system: System, texts: Sequence[str], depth: int) -> dict[str, Any]:
    """Milliseconds a query: `one`, the medians over `texts` asked one by one; `batch`, all at once over their number.

    Each has `encode`, `search` and `total`. The first two queries are asked twice, and the first times are not counted.

    Source: ANCE (Xiong et al., ICLR 2021), table 5.
    """

    def timed(asked: Sequence[str]) -> list[float]:
        began = time.perf_counter()
        vectors = system.encode(asked)
        encoded = time.perf_counter()
        system.searcher.search(vectors, depth)
        ended = time.perf_counter()
        return [1000 * seconds / len(asked) for seconds in (encoded - began, ended - encoded, ended - began)]

    for text in texts[:2]:
        timed([text])
    one = map(median, zip(*(timed([text]) for text in texts), strict=True))
    ways = {"one": one, "batch": timed(texts)}
    return {"device": system.device, **{way: dict(zip(_PARTS, times, strict=True)) for way, times in ways.items()}}
