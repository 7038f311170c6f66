"""Costs: the times of training runs, operations and single queries, and the sizes of indexes."""

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

import hardneg.plugin as hn
from hardneg_papers.analyses.shared import Encoders, Indexes, check_model_labels

_UNITS = {
    "index": ("passages", "document"),
    "run": ("queries", "query"),
    "negatives": ("queries", "query"),
    "model": ("steps", "step"),
}
"""The fact with the number of items that a stage processed, and the unit of an item, by artifact type."""
_PARTS = {"run": "seconds of search: ", "model": "seconds of inference: "}
"""The prefix of the facts with the seconds of a stage's parts, by artifact type."""

Row = dict[str, Any]


class Operations(hn.Analysis):
    """Show the time that each stage of a finished recipe takes per document, query, training step or refresh.

    Example: hardneg analyze operations runs/star-passage --stage star-index --stage star-test
    """

    name = "operations"
    title = "time of operations"
    explained = (
        "Wall time of whole stages, divided by their items. Search includes opening the index and encoding queries; "
        "training includes dev metrics and checkpoints. Rows with a colon are parts of the stage above; "
        "`making negatives` is the time of refreshes per step."
    )
    paper = "ANCE, Table 5"
    asks = ("stages",)
    drawn = slice(2, 3)

    stages: Annotated[
        dict[hn.fields.Name, hn.fields.Name], hn.fields.Reference(tuple(_UNITS)), hn.fields.Option("stage")
    ] = Field(min_length=1, description="A stage to show; by default, all except evaluations.")
    totals: Annotated[
        dict[hn.fields.Name, tuple[hn.fields.Name, ...]],
        hn.fields.Option("total", metavar="NAME=OPERATION[,OPERATION]"),
    ] = Field(default_factory=dict, description="Operations to add up, by their times per unit.")

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """By default, select each stage with items to count: indexes, runs, negatives and models."""
        return values if "stages" in values else {"stages": {name: name for name in types if types[name] in _UNITS}}

    def measure(self, inputs: hn.AnalysisInputs) -> list[Row]:
        """Return the operations of each stage, from its manifest, then the totals; see `operations` and `totals`."""
        results = operations({label: inputs.facts(f"stages.{label}") for label in self.stages})
        try:
            return [*results, *totals(results, self.totals)]
        except hn.errors.UsageError as error:
            raise hn.errors.UsageError(f"{inputs.location('totals')}: {error}") from None

    def table(self, results: Any) -> hn.Table:
        rows = []
        for row in results:
            when, seconds = "online" if row["online"] else "offline", row["seconds"]
            each, unit = row["milliseconds"], row["unit"]
            time_each = "unknown" if each is None else f"{each:.3g} ms per {unit}"
            if each is not None and each >= 1000:
                time_each = f"{each / 1000:.3g} s per {unit}"
            known = "unknown" if seconds is None else f"{seconds:,.1f}"
            rows.append([row["operation"], when, known, f"{row['count']:,}", time_each])
        return hn.Table(("operation", "when", "seconds", "units", "time per unit"), rows)


def _operation(name: str, kind: str, seconds: float | None, count: int, unit: str) -> Row:
    milliseconds = 1000 * seconds / count if seconds is not None and count else None
    facts = {"kind": kind, "operation": name, "online": kind == "run", "seconds": seconds, "count": count}
    return {**facts, "unit": unit, "milliseconds": milliseconds}


def operations(stages: Mapping[str, tuple[str, Mapping[str, Any]]]) -> list[Row]:
    """Return the time of each stage and of its parts, in order, from its artifact type and the facts in its manifest.

    Each row has `operation`, the label; `kind`, the artifact type; `online`, whether users wait for it; `seconds`, wall
    time, None if unknown; `count`, the number of `unit` processed, 0 if unknown; and `milliseconds` per unit, None if
    unknown. A search is followed by its parts. Training on refreshed negatives is followed by its steps without
    waiting, the parts of its refreshes, and the sum of these parts per step.

    Source: ANCE (Xiong et al., ICLR 2021), table 5; its first version, table 3.
    """
    results = []
    for label, (kind, facts) in stages.items():
        counted, unit = _UNITS[kind]
        seconds, count = facts.get("seconds"), int(facts.get(counted, 0))
        results.append(_operation(label, kind, None if seconds is None else float(seconds), count, unit))
        prefix = _PARTS.get(kind, "\0")
        parts = {name.removeprefix(prefix): float(each) for name, each in facts.items() if name.startswith(prefix)}
        if kind == "run":
            results += [_operation(f"{label}: {name}", kind, value, count, unit) for name, value in parts.items()]
            continue
        waited = facts.get("waiting's part of the time")
        if parts and waited is not None and seconds is not None:
            results.append(_operation(f"{label}: steps", kind, float(seconds) * (1 - float(waited)), count, unit))
        for name, value in parts.items():
            told, each = ("documents encoded", "document") if name == "encode" else ("queries searched", "query")
            told, each = (told, each) if told in facts else ("refreshes made", "refresh")
            results.append(_operation(f"{label}: {name}", kind, value, int(facts.get(told, 0)), each))
        if parts:
            results.append(_operation(f"{label}: making negatives", kind, sum(parts.values()), count, unit))
    return results


def totals(results: Sequence[Row], named: Mapping[str, Sequence[str]]) -> list[Row]:
    """Return a row per label of `named`: the sum of its operations' times per unit, None if one is unknown.

    Raises:
        UsageError: an operation is unknown, or the units of a sum differ.
    """
    known, summed = {each["operation"]: each for each in results}, []
    for label, names in named.items():
        for name in names:
            if name not in known:
                there = f"{hn.records.suggestion(name, known)}; available: {', '.join(known)}"
                raise hn.errors.UsageError(f"{label}: no operation {name!r}{there}")
        parts = [known[name] for name in names]
        if len(units := dict.fromkeys(each["unit"] for each in parts)) > 1:
            raise hn.errors.UsageError(
                f"{label}: cannot add times per {' and per '.join(units)}; use operations with the same unit"
            )
        times, first = [each["milliseconds"] for each in parts], parts[0]
        seconds = None if None in times else sum(times) * first["count"] / 1000
        total = _operation(label, "total", seconds, first["count"], first["unit"])
        summed.append({**total, "online": all(each["online"] for each in parts)})
    return summed


_DOC_IDS = "docid"
_ASIDE = {_DOC_IDS, hn.stores.MANIFEST, "shards.json", "shard.json"}
_TIMED = ("encode", "search", "total")


class IndexSizes(hn.Analysis):
    """Show the size of indexes on disk, and relative to the first one.

    Example: hardneg analyze sizes --index flat=index --index pq=index-pq
    """

    name = "sizes"
    title = "index sizes"
    explained = "Bytes on disk without document ids, including fixed parts such as centroids."
    paper = "STAR/ADORE, Table 5"
    beside: ClassVar[Mapping[str, slice]] = {"matrix": slice(1, None), "costs": slice(1, 3)}
    drawn = slice(1, 2)

    indexes: Annotated[
        dict[hn.fields.Name, hn.fields.Name], hn.fields.Reference(("index",)), hn.fields.Option("index")
    ] = Field(min_length=1, description="An index folder.")

    def measure(self, inputs: hn.AnalysisInputs) -> list[dict[str, Any]]:
        """Return the size of each index. Raises DataError if a folder is not an index.

        `vectors`: the number of vectors (documents of a text index). `bytes`: the size of its files without ids.
        `bytes_per_vector`: `bytes`, including centroids, divided by `vectors`. `ratio`: `bytes` relative to the first.

        Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 5.
        """
        results: list[dict[str, Any]] = []
        for label in self.indexes:
            folder, vectors = inputs.index(f"indexes.{label}")
            if (folder / _DOC_IDS).is_file():
                with (folder / _DOC_IDS).open("rb") as file:
                    vectors = sum(1 for line in file if line.strip())
            if vectors is None:
                raise hn.errors.DataError(
                    f"{folder}: no dense index (no file {_DOC_IDS}); use a folder written by `hardneg encode`"
                )
            files = [path for path in folder.rglob("*") if path.is_file() and path.name not in _ASIDE]
            size = sum(path.stat().st_size for path in files)
            first = results[0]["bytes"] if results else size
            shares = {"bytes_per_vector": size / max(1, vectors), "ratio": size / max(1, first)}
            results.append({"index": label, "vectors": vectors, "bytes": size, **shares})
        return results

    def table(self, results: Any) -> hn.Table:
        rows = [
            [row["index"], f"{row['bytes'] / 1e6:,.2f}", f"{row['bytes_per_vector']:,.1f}", f"{row['ratio']:.1%}"]
            for row in results
        ]
        return hn.Table(("index", "MB", "bytes per vector", "relative to the first"), rows)


class Latency(hn.Analysis):
    """Measure the time to encode and search single queries, and all queries at once.

    Example: hardneg analyze latency --queries FILE --index FOLDER --model NAME
    """

    name = "latency"
    title = "time of one query"
    explained = (
        "One query: the median over queries searched one after another, with index and model open. All at once: the "
        "total time divided by the number of queries."
    )
    paper = "ANCE, Table 5"
    asks = ("queries", "seed", "device")
    drawn = slice(2, None)

    indexes: Indexes = Field(min_length=1, description="A dense index folder.")
    models: Encoders = Field(default_factory=dict, description="Query encoder of each index, in the same order.")
    sample: int = Field(50, gt=0, description="Number of queries, drawn at random.")
    depth: int = Field(100, gt=0, description="Number of documents to retrieve per query.")

    @model_validator(mode="after")
    def _known(self) -> "Latency":
        check_model_labels(self.indexes, self.models)
        return self

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """Pair models with indexes, or one model with all. Raises UsageError for any other number of models."""
        indexes, models = values.get("indexes", {}), list(values.get("models", {}).values())
        if len(models) not in (1, len(indexes)):
            message = f"{len(models)} {{models}}, but {len(indexes)} {{indexes}}; give one model, or one per index"
            raise hn.errors.UsageError(f"analyze latency: {message}", "models", "indexes")
        return {**values, "models": dict(zip(indexes, models * (len(indexes) if len(models) == 1 else 1), strict=True))}

    def measure(self, inputs: hn.AnalysisInputs) -> dict[str, Any]:
        """Return milliseconds per query, single and in a batch, by index; see `latency`.

        Raises:
            UsageError: there are no queries.
        """
        texts = list(inputs.queries(inputs.split).values())
        if not texts:
            raise hn.errors.UsageError(f"{inputs.location('queries')}: no queries in split {inputs.split}")
        drawn = np.random.default_rng(inputs.seed).permutation(len(texts))[: self.sample]
        queries = [texts[position] for position in drawn]
        results = {
            label: latency(inputs.system(f"indexes.{label}", f"models.{label}"), queries, self.depth)
            for label in self.indexes
        }
        return {"queries": len(queries), "depth": self.depth, "indexes": results}

    def table(self, results: Any) -> hn.Table:
        rows = [
            [label, words, *(f"{measured[way][part]:,.3g}" for part in _TIMED)]
            for label, measured in results["indexes"].items()
            for way, words in (("one", "one query"), ("batch", f"{results['queries']} at once"))
        ]
        head = ("index", "queries", "encode (ms)", f"search, top {results['depth']} (ms)", "total (ms)")
        return hn.Table(head, rows, 2)

    def explain(self, results: Any) -> str:
        devices = dict.fromkeys(each["device"] for each in results["indexes"].values())
        return f"{self.explained} Measured on: {', '.join(devices)}."


def latency(system: hn.System, texts: Sequence[str], depth: int) -> dict[str, Any]:
    """Measure milliseconds per query: `one`, the median over `texts` one by one; `batch`, the mean of one search.

    Both have `encode`, `search` and `total`. `device` is the system's. Two queries are run before, as a warm-up.

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
    return {"device": system.device, **{way: dict(zip(_TIMED, times, strict=True)) for way, times in ways.items()}}


_PEAKS = ("peak_memory", "peak_gpu_memory")


class Costs(hn.Analysis):
    """Show the time, steps, device and memory of training, and the speed relative to the first method.

    Example: hardneg analyze costs runs/star-passage --stage STAR=star --stage both=star,adore
    """

    name = "costs"
    title = "training costs"
    explained = "Wall time of the stages; work that an interrupted stage redid after its checkpoint is counted once."
    paper = "STAR/ADORE, Table 4"
    asks = ("stages",)
    drawn = slice(1, 2)

    methods: Annotated[
        dict[
            hn.fields.Name,
            Annotated[
                tuple[hn.fields.Name, ...], BeforeValidator(lambda each: (each,) if isinstance(each, str) else each)
            ],
        ],
        hn.fields.Reference(("model", "index", "run", "negatives")),
        hn.fields.Option("stage", metavar="NAME=STAGE[,STAGE]"),
    ] = Field(min_length=1, description="Stages whose costs to add up; by default, each training stage alone.")

    @classmethod
    def arranged(cls, values: Mapping[str, Any], types: Mapping[str, str]) -> Mapping[str, Any]:
        """By default, use each stage of a run folder that writes a model as a separate method."""
        return values if "methods" in values else {"methods": {name: name for name in types if types[name] == "model"}}

    def measure(self, inputs: hn.AnalysisInputs) -> list[dict[str, Any]]:
        """Return the costs of each method; see `costs`."""
        methods: dict[str, dict[str, Any]] = {}
        for label, stages in self.methods.items():
            facts = {name: inputs.facts(f"methods.{label}.{position}")[1] for position, name in enumerate(stages)}
            methods[label] = {name: {**each, **each.get("usage", {})} for name, each in facts.items()}
        return costs(methods)

    def table(self, results: Any) -> hn.Table:
        """Format times in hours, or in minutes if all are shorter than an hour."""
        longest = max((row["seconds"] for row in results), default=0.0)
        unit, length = ("hours", 3600.0) if longest >= 3600 else ("minutes", 60.0)
        rows = []
        for row in results:
            without = f" without {', '.join(row['unknown'])}" if row["unknown"] else ""
            sizes = ["unknown" if row[name] is None else f"{row[name] / 1e9:.1f}" for name in _PEAKS]
            speed = "–" if row["speedup"] is None else f"{row['speedup']:.3g}×"
            devices = ", ".join(row["devices"]) or "unknown"
            time = f"{row['seconds'] / length:,.2f}{without}"
            rows.append([row["method"], time, *sizes, speed, f"{row['steps']:,}", devices])
        return hn.Table(("method", unit, "peak GB", "peak GPU GB", "speed", "steps", "device"), rows)


def costs(methods: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """Compute the costs of each method from the facts in its stages' manifests.

    Args:
        methods: for each method, facts by stage (`seconds`, `steps`, `device`, `peak_memory`, `peak_gpu_memory`).

    Returns:
        For each method, its `stages`; the sums of `seconds` (wall time) and of optimizer `steps`; `devices` without
        duplicates; `peak_memory` and `peak_gpu_memory`, bytes, the largest of the stages, None if no stage records it;
        `speedup`: the first method's seconds over this one's, None where either is unknown; `unknown`: stages without a
        recorded time.

    Source: STAR/ADORE (Zhan et al., SIGIR 2021), table 4.
    """
    rows: list[dict[str, Any]] = []
    for method, stages in methods.items():
        steps = list(stages.values())
        row: dict[str, Any] = {"method": method, "stages": list(stages)}
        row["seconds"] = sum(float(facts.get("seconds", 0)) for facts in steps)
        row["steps"] = sum(int(facts.get("steps", 0)) for facts in steps)
        row["devices"] = list(dict.fromkeys(str(facts["device"]) for facts in steps if "device" in facts))
        row |= {name: max((int(each[name]) for each in steps if name in each), default=None) for name in _PEAKS}
        row["unknown"] = [name for name, facts in stages.items() if "seconds" not in facts]
        rows.append(row)
        known = not row["unknown"] and not rows[0]["unknown"] and row["seconds"] > 0
        row["speedup"] = rows[0]["seconds"] / row["seconds"] if known else None
    return rows
