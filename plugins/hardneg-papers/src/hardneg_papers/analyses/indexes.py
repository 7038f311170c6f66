"""Indexes: their size on disk, the time of one query, and their quality by the dimensions that are kept."""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from hardneg.plugin import (
    MANIFEST,
    Analysis,
    AnalysisInputs,
    DataError,
    Hits,
    MetricName,
    Name,
    Option,
    RankedList,
    Reference,
    System,
    Table,
    UsageError,
    evaluate,
    means,
)
from hardneg_papers.analyses.shared import Encoders, Indexes, check_model_labels, corpus_pass

_DOC_IDS = "docid"
_ASIDE = {_DOC_IDS, MANIFEST, "shards.json", "shard.json"}
_PARTS = ("encode", "search", "total")
_WARM_UP, _DEPTH = 2, 100


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
        """Of each index its size, against the first; of one of texts the documents count as vectors."""
        results = {}
        for label in self.indexes:
            folder, documents = inputs.index(f"indexes.{label}")
            vectors = index_vectors(folder) or documents
            if vectors is None:
                raise DataError(f"{folder}: no dense index (no file {_DOC_IDS}): name a folder of `hardneg encode`")
            files = [path for path in folder.rglob("*") if path.is_file() and path.name not in _ASIDE]
            results[label] = sum(path.stat().st_size for path in files), vectors
        return sizes(results)

    def table(self, results: Any) -> Table:
        rows = [
            [row["index"], f"{row['bytes'] / 1e6:,.2f}", f"{row['bytes_per_vector']:,.1f}", f"{row['ratio']:.1%}"]
            for row in results
        ]
        return Table(("index", "MB", "bytes a vector", "of the first"), rows)


def sizes(indexes: Mapping[str, tuple[int, int]]) -> list[dict[str, Any]]:
    """The sizes of indexes from label to (bytes, vectors), against the first of them.

    `vectors`: how many it holds. `bytes`: its files without the ids. `bytes_per_vector`: all of its bytes, the
    centroids too, over its vectors. `ratio`: its bytes over those of the first index.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 5.
    """
    first = next(iter(indexes.values()), (0, 0))[0]
    return [
        {
            "index": label,
            "vectors": vectors,
            "bytes": size,
            "bytes_per_vector": size / max(1, vectors),
            "ratio": size / max(1, first),
        }
        for label, (size, vectors) in indexes.items()
    ]


def index_vectors(folder: Path) -> int | None:
    """How many vectors a dense index folder holds, by its ids, a line each; None for an index of texts."""
    if not (folder / _DOC_IDS).is_file():
        return None
    with (folder / _DOC_IDS).open("rb") as file:
        return sum(1 for line in file if line.strip())


class OfIndexes(Analysis):
    """Base of analyses that give each index the model of its queries."""

    indexes: Indexes = Field(min_length=1, description="An index with one vector a document.")
    models: Encoders = Field(default_factory=dict, description="The model of each index, in their order.")

    @model_validator(mode="after")
    def _known(self) -> Self:
        check_model_labels(self.indexes, self.models)
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Models in the order of the indexes; one alone is that of all.

        Raises:
            UsageError: there are other numbers of them.
        """
        indexes, models = values.get("indexes", {}), list(values.get("models", {}).values())
        if len(models) not in (1, len(indexes)):
            message = f"{len(models)} {{models}} for {len(indexes)} {{indexes}}: give one of each"
            raise UsageError(f"analyze {cls.name}: {message}", "models", "indexes")
        return {**values, "models": dict(zip(indexes, models * (len(indexes) if len(models) == 1 else 1), strict=True))}


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
    drawn = slice(2, None)

    indexes: Indexes = Field(min_length=1, description="A dense index folder.")
    models: Encoders = Field(default_factory=dict, description="The query model of each index, in their order.")
    sample: int = Field(50, gt=0, description="How many queries, drawn by the seed.")
    depth: int = Field(100, gt=0, description="How many documents of each.")

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

    def timed(asked: Sequence[str]) -> tuple[float, float]:
        began = time.perf_counter()
        vectors = system.encode(asked)
        encoded = time.perf_counter()
        system.searcher.search(vectors, depth)
        return 1000 * (encoded - began), 1000 * (time.perf_counter() - encoded)

    for text in texts[:_WARM_UP]:
        timed([text])
    alone = [timed([text]) for text in texts]
    one = [*(median(each) for each in zip(*alone, strict=True)), median(map(sum, alone))]
    together = [each / len(texts) for each in timed(texts)]
    batch = [*together, sum(together)]
    return {
        "device": system.device,
        "one": dict(zip(_PARTS, one, strict=True)),
        "batch": dict(zip(_PARTS, batch, strict=True)),
    }


class Truncation(OfIndexes):
    """Show metrics of an index by how many dimensions of its vectors are kept, as Matryoshka models have them.

    Truncated vectors of norm 1 are normalised again. Every search is exact.

    Example: hardneg analyze truncation --index FOLDER --model A --dims 384 --dims 64 --qrels Q --queries FILE
    """

    name = "truncation"
    title = "dimensions kept"
    explained = "The vectors are encoded once; of each, the first dimensions are searched alone."
    paper = "Matryoshka Representation Learning, section 4.2"
    asks = ("qrels", "queries", "relevance_level", "device")
    drawn, across = slice(2, None), 1

    dims: Annotated[tuple[PositiveInt, ...], Option("dims")] = Field(
        min_length=1, description="How many dimensions to keep."
    )
    metrics: Annotated[
        tuple[MetricName, ...], Option("metrics", same=("metric",), metavar="NAME[,NAME]"), Field(min_length=1)
    ] = Field(("mrr@10", "ndcg@10", "recall@100"), description="What is measured.")

    def measure(self, inputs: AnalysisInputs) -> dict[str, Any]:
        """By label, the means of the metrics at each number of dimensions, from the largest on: [[dims, {metric}]]."""
        from hardneg_papers.analyses.truncated import search_truncated  # torch is slow to import

        qrels, texts = inputs.qrels(), inputs.queries(inputs.split)
        query_ids = [query_id for query_id in qrels if query_id in texts]
        if not query_ids:
            raise UsageError("no judged query has a text: give the queries of these judgements")
        wanted, dims = [texts[query_id] for query_id in query_ids], sorted({*self.dims}, reverse=True)
        results = {}
        for label in self.indexes:
            system = inputs.system(f"indexes.{label}", f"models.{label}")
            corpus = corpus_pass(system.searcher, len(system.doc_ids))
            by_dim = search_truncated(corpus, system.encode(wanted), dims, _DEPTH, system.device)
            results[label] = [[dim, self._means(inputs, system, query_ids, hits)] for dim, hits in by_dim.items()]
        return {"metrics": list(self.metrics), "relevance_level": inputs.relevance_level, "indexes": results}

    def _means(self, inputs: AnalysisInputs, system: System, query_ids: Sequence[str], hits: Hits) -> dict[str, float]:
        rows = [listed[listed >= 0] for listed in hits.rows]
        run = {
            query_id: RankedList([system.doc_ids[row] for row in listed.tolist()], scores[: len(listed)])
            for query_id, listed, scores in zip(query_ids, rows, hits.scores, strict=True)
        }
        return means(evaluate(run, inputs.qrels(), self.metrics, inputs.relevance_level))

    def table(self, results: Any) -> Table:
        rows = [
            [label, f"{dim:,}", *(f"{measured[name]:.4f}" for name in results["metrics"])]
            for label, points in results["indexes"].items()
            for dim, measured in points
        ]
        return Table(("index", "dimensions", *results["metrics"]), rows)
