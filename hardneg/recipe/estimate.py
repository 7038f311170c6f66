"""What a plan will take: passages, disk, memory and time, from counts and a few rates; rough, and told as such."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hardneg.artifacts import Store
from hardneg.recipe.magnitudes import Magnitudes, magnitudes
from hardneg.recipe.plan import Plan, Step, cached
from hardneg.stages.analysis_spec import AnalyzeSpec
from hardneg.stages.fuse_spec import FuseSpec
from hardneg.stages.label_spec import LabelSpec
from hardneg.stages.reading_spec import ReadSpec, TrainReaderSpec
from hardneg.stages.refresh_spec import TrainRefreshedSpec
from hardneg.stages.reranker_spec import RerankSpec, TrainRerankerSpec
from hardneg.stages.specs import EvaluateSpec, MineSpec, SearchSpec, TrainQueriesSpec
from hardneg.stages.train_spec import TrainSpec
from hardneg.trials import remembered

_DOCUMENT_BYTES = 600
_PROCESS_BYTES = 700_000_000
_JVM_BYTES = 1_000_000_000
_GPU_OPERATIONS = 120e12
_CPU_OPERATIONS = {True: 0.15e12, False: 0.05e12}
_LUCENE_PASSAGES = 4_000
_COMPRESSED_PASSAGES = 10_000
_LUCENE_QUERIES = 150
_SCORES_A_SECOND = 120e6
_BLOCK_BYTES = 200_000_000
_PAIR_TOKENS = 120
_SCORE_BYTES = 24


@dataclass(frozen=True)
class Estimate:
    """One step: `items` of `unit` to go through, disk and memory in bytes, seconds; for what is in the store, 0 s."""

    step: Step
    cached: bool
    items: int
    unit: str
    disk: int
    memory: int
    seconds: float


def estimate(plan: Plan, store: Store, until: str | None = None) -> list[Estimate]:
    """One estimate a step, in the order in which they run."""
    sizes = magnitudes(plan, store)
    rows = []
    for step in plan.until(until):
        items, unit, disk, memory, seconds = _RULES[step.verb](step, sizes)
        done = cached(step, store) is not None
        rows.append(Estimate(step, done, items, unit, disk, memory, 0.0 if done else seconds))
    return rows


@cache
def _operations() -> float:
    """Useful operations a second of this machine; a graphics card is asked for without loading torch."""
    if Path("/dev/nvidia0").exists() or Path("/dev/nvidiactl").exists():
        return _GPU_OPERATIONS
    return _CPU_OPERATIONS[_in_bf16()] * (os.cpu_count() or 1)


def _in_bf16() -> bool:
    """Whether a trial found bfloat16 faster here; before any trial it is not counted on."""
    return any(trial.chosen == "bf16" and " on cpu, " in trial.subject for trial in remembered())


_Row = tuple[int, str, int, int, float]


def _dataset(step: Step, sizes: Magnitudes) -> _Row:
    return sizes.documents, "passages", sizes.documents * _DOCUMENT_BYTES, _PROCESS_BYTES, sizes.documents / 50_000 + 1


def _encode(step: Step, sizes: Magnitudes) -> _Row:
    rows, length = _segments(step, sizes)
    tokens = sizes.documents * rows * length * 0.6
    disk = sizes.documents * rows * (sizes.dimension * 4 + 20)
    memory = _PROCESS_BYTES + 2 * sizes.shape.weights
    return sizes.documents, "passages", disk, memory, tokens * sizes.shape.operations_a_token / _operations() + 3


def _segments(step: Step, sizes: Magnitudes) -> tuple[int, int]:
    """How many vectors a document has, at most, and the tokens of each."""
    cut = getattr(step.spec, "segments", None)
    return (1, sizes.model.document_length) if cut is None else (cut.count, cut.length)


def _index(step: Step, sizes: Magnitudes) -> _Row:
    count = sizes.documents
    if "vectors" in step.inputs:
        disk = count * (sizes.dimension + 20)
        return count, "passages", disk, _PROCESS_BYTES + _BLOCK_BYTES, count / _COMPRESSED_PASSAGES + 30
    return count, "passages", count * _DOCUMENT_BYTES, _JVM_BYTES, count / _LUCENE_PASSAGES + 8


def _search(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, SearchSpec)
    count = sizes.queries(step.spec.split)
    disk = count * step.spec.depth * 20
    if "model" not in step.inputs:
        return count, "queries", disk, _JVM_BYTES, count / _LUCENE_QUERIES + 8
    scores = count * (0 if step.spec.candidates else sizes.documents) / _SCORES_A_SECOND
    encoding = count * sizes.model.query_length * 0.4 * sizes.shape.operations_a_token / _operations()
    return count, "queries", disk, _PROCESS_BYTES + sizes.shape.weights + _BLOCK_BYTES, scores + encoding + 3


def _fuse(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, FuseSpec)
    count = sizes.queries(step.spec.split)
    return count, "queries", count * step.spec.depth * 20, _PROCESS_BYTES, count / 500 + 3


def _train_reranker(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, TrainRerankerSpec)
    options, shape = step.spec.options, sizes.network(step)
    steps = options.last_step(sizes.queries("train"))
    tokens = options.batch_size * (1 + options.negatives_per_query) * _PAIR_TOKENS
    passes = 5 if options.adversarial else 3
    seconds = passes * steps * options.accumulate * tokens * shape.operations_a_token / _operations()
    memory = _PROCESS_BYTES + 4 * shape.weights + int(tokens * shape.kept_a_token(_PAIR_TOKENS))
    return steps, "steps", 4 * shape.weights, memory, seconds + 5


def _rerank(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, RerankSpec)
    count, shape = sizes.queries(step.spec.split), sizes.network(step)
    tokens = count * step.spec.depth * _PAIR_TOKENS
    seconds = tokens * shape.operations_a_token / _operations()
    return count, "queries", count * step.spec.depth * 20, _PROCESS_BYTES + 2 * shape.weights, seconds + 5


def _mine(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, MineSpec | LabelSpec)
    count = sizes.queries(step.spec.split)
    return count, "queries", count * 200 * 20, _PROCESS_BYTES, count / 5_000 + 1


def _train(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, TrainSpec | TrainRefreshedSpec)
    options = step.spec.options
    steps = options.last_step(sizes.queries("train"))
    documents = 1 + options.negatives_per_query
    rows, length = _segments(step, sizes)
    tokens = sizes.model.query_length * 0.4 + documents * rows * length * 0.8
    size, at_once = options.batch_size, min(options.batch_size, options.chunk or options.batch_size)
    passes = 3 if at_once == size else 4
    seconds = passes * steps * options.accumulate * size * tokens * sizes.shape.operations_a_token / _operations()
    activations = int(at_once * tokens * sizes.shape.kept_a_token(length))
    memory = _PROCESS_BYTES + 4 * sizes.shape.weights + activations + size * size * documents * _SCORE_BYTES
    return steps, "steps", 4 * sizes.shape.weights, memory, seconds + 5


def _train_refreshed(step: Step, sizes: Magnitudes) -> _Row:
    """Waiting for each refresh, or for the first one alone and then slowed down by the process beside it."""
    assert isinstance(step.spec, TrainRefreshedSpec)
    refresh, (of_trainer, of_inferencer) = step.spec.refresh, step.spec.devices.shares
    steps, unit, disk, memory, learning = _train(step, sizes)
    _, _, vectors, encoding, once = _encode(step, sizes)
    once += sizes.queries(step.spec.split) / refresh.query_chunks * sizes.documents / _SCORES_A_SECOND
    seconds = learning * (of_trainer + of_inferencer) / of_trainer + once
    if refresh.waits:
        seconds = learning + once * (-(-steps // refresh.every) if refresh.every else 1)
    return steps, unit, disk + vectors, memory + encoding + _BLOCK_BYTES, seconds


def _train_queries(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, TrainQueriesSpec)
    options = step.spec.options
    queries = sizes.queries(step.spec.split)
    steps = options.last_step(queries)
    asked = steps * options.batch_size * options.accumulate
    tokens = options.batch_size * sizes.model.query_length * 0.4
    learning = 3 * asked / options.batch_size * tokens * sizes.shape.operations_a_token / _operations()
    searches = {"dynamic": asked, "refreshed": steps // (step.spec.refresh_every or steps) * queries}
    searching = searches.get(step.spec.schedule, 0) * sizes.documents / _SCORES_A_SECOND
    lists = options.batch_size * step.spec.depth * sizes.dimension * 4
    memory = _PROCESS_BYTES + 5 * sizes.shape.weights + _BLOCK_BYTES + lists
    return steps, "steps", 5 * sizes.shape.weights, memory, learning + searching + 5


def _train_reader(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, TrainReaderSpec)
    options, shape = step.spec.options, sizes.network(step)
    steps = options.last_step(sizes.queries(step.spec.split))
    tokens = options.batch_size * (1 + options.negatives_per_query) * step.spec.reader.length * 0.5
    seconds = 3 * steps * options.accumulate * tokens * shape.operations_a_token / _operations()
    memory = _PROCESS_BYTES + 4 * shape.weights + int(tokens * shape.kept_a_token(step.spec.reader.length))
    return steps, "steps", 4 * shape.weights, memory, seconds + 5


def _read(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, ReadSpec)
    count, shape = sizes.queries(step.spec.split), sizes.network(step)
    tokens = count * max(step.spec.passages) * _PAIR_TOKENS
    seconds = tokens * shape.operations_a_token / _operations()
    return count, "queries", count * 300, _PROCESS_BYTES + 2 * shape.weights, seconds + 5


def _evaluate(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, EvaluateSpec)
    count = sizes.queries(step.spec.split)
    return count, "queries", 2_000 + count * 300, _PROCESS_BYTES, 15


def _analyze(step: Step, sizes: Magnitudes) -> _Row:
    assert isinstance(step.spec, AnalyzeSpec)
    count, passes = sizes.queries(step.spec.split), 2 * len(step.spec.indexes)
    scores = passes * count * sizes.documents / _SCORES_A_SECOND
    return count, "queries", 1_000_000 + 100 * count, _PROCESS_BYTES + _BLOCK_BYTES, scores + 10


def _report(step: Step, sizes: Magnitudes) -> _Row:
    return 1, "page", 200_000, _PROCESS_BYTES, 3


_RULES: Mapping[str, Callable[[Step, Magnitudes], _Row]] = {
    "dataset": _dataset,
    "encode": _encode,
    "index": _index,
    "search": _search,
    "mine": _mine,
    "label": _mine,
    "train": _train,
    "train-queries": _train_queries,
    "train-refreshed": _train_refreshed,
    "train-reranker": _train_reranker,
    "fuse": _fuse,
    "rerank": _rerank,
    "train-reader": _train_reader,
    "read": _read,
    "evaluate": _evaluate,
    "analyze": _analyze,
    "report": _report,
}
