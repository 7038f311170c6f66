"""What a plan will take: passages, disk, memory and time, from counts and a few rates; rough, and told as such."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from hardneg.artifacts import Store
from hardneg.machine import Machine, this_machine
from hardneg.models.shape import model_shape
from hardneg.recipe.plan import Plan, Step, cached
from hardneg.recipe.sizes import networks, plan_sizes, step_sizes
from hardneg.stages.fuse import Fuse
from hardneg.stages.label import Label
from hardneg.stages.reading_spec import ReadSpec, TrainReaderSpec
from hardneg.stages.rerank import Rerank
from hardneg.stages.spec import Row, Sizes, StageSpec, encoding
from hardneg.stages.train import Train
from hardneg.stages.train_queries import TrainQueries
from hardneg.stages.train_refreshed import TrainRefreshed
from hardneg.stages.train_reranker import TrainReranker
from hardneg.training.options import TrainOptions

_DOCUMENT_BYTES = 600
_PROCESS_BYTES = 700_000_000
_JVM_BYTES = 1_000_000_000
_LUCENE_PASSAGES = 4_000
_COMPRESSED_PASSAGES = 10_000
_LUCENE_QUERIES = 150
_BLOCK_BYTES = 200_000_000
_PAIR_TOKENS = 120
_SCORE_BYTES = 24
_MOVED_EMBEDDINGS = 2  # their gradient and the step along it


@dataclass(frozen=True)
class Estimate:
    """One step.

    items: how many of `unit` there are to go through. disk, memory: bytes, memory of all processes together.
    gpu_memory: bytes on each GPU; 0 where there is none. seconds: 0 for what is in the store; NaN where the GPU is not
    known.
    """

    step: Step
    cached: bool
    items: int
    unit: str
    disk: int
    memory: int
    gpu_memory: int
    seconds: float


def estimate(plan: Plan, store: Store, until: str | None = None, machine: Machine | None = None) -> list[Estimate]:
    """One estimate a step, in the order in which they run; `machine` is by default this one, with one process."""
    where = machine or this_machine()
    sizes, shapes = plan_sizes(plan, store, where), {name: model_shape(spec) for name, spec in networks(plan)}
    rows = ((step, _row(step, step_sizes(sizes, plan, step, shapes))) for step in plan.until(until))
    return [_estimate(step, row, where, store) for step, row in rows]


def _row(step: Step, sizes: Sizes) -> Row:
    own = type(step.spec).estimate is not StageSpec.estimate or step.verb not in _RULES
    return step.spec.estimate(sizes) if own else _RULES[step.verb](step, sizes)


def _estimate(step: Step, row: Row, machine: Machine, store: Store) -> Estimate:
    done = cached(step, store) is not None
    processes = machine.processes if row.held else 1
    own, networks = processes * row.memory, processes * row.held + row.shared
    memory, gpu = (own, -(-networks // processes)) if machine.gpu else (own + networks, 0)
    seconds = 0.0 if done else row.seconds
    return Estimate(step, done, row.items, row.unit, row.disk, memory, gpu, seconds)


def _fuse(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, Fuse)
    count = sizes.queries(step.spec.split)
    return Row(count, "queries", count * step.spec.depth * 20, _PROCESS_BYTES, count / 500 + 3)


def _train_reranker(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, TrainReranker)
    options, shape = step.spec.options, sizes.network
    steps = options.last_step(sizes.queries("train"))
    tokens = options.batch_size * (1 + options.negatives_per_query) * _PAIR_TOKENS
    passes = (5 if options.adversarial else 3) + options.gradient_checkpointing
    seconds = passes * steps * options.accumulate * tokens * shape.operations_a_token / sizes.machine.operations
    held = 4 * shape.weights + (_MOVED_EMBEDDINGS * shape.embeddings if options.adversarial else 0)
    kept = int(tokens * shape.kept_a_token(_PAIR_TOKENS, options.gradient_checkpointing))
    return Row(steps, "steps", 4 * shape.weights, _PROCESS_BYTES, seconds + 5, held, kept)


def _rerank(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, Rerank)
    count, shape = sizes.queries(step.spec.split), sizes.network
    tokens = count * step.spec.depth * _PAIR_TOKENS
    seconds = tokens * shape.operations_a_token / sizes.machine.operations
    return Row(count, "queries", count * step.spec.depth * 20, _PROCESS_BYTES, seconds + 5, 2 * shape.weights)


def _mine(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, Label)
    count = sizes.queries(step.spec.split)
    return Row(count, "queries", count * 200 * 20, _PROCESS_BYTES, count / 5_000 + 1)


def _train(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, Train | TrainRefreshed)
    options = step.spec.options
    steps = options.last_step(sizes.queries("train"))
    documents = 1 + options.negatives_per_query
    rows, length = sizes.segments(step.spec.segments)
    tokens = sizes.model.query_length * 0.4 + documents * rows * length * 0.8
    size, at_once = options.batch_size, min(options.batch_size, options.chunk or options.batch_size)
    passes = (3 if at_once == size else 4) + options.gradient_checkpointing
    seconds = sizes.network_seconds(passes * steps * options.accumulate * size * tokens)
    kept = int(at_once * tokens * sizes.shape.kept_a_token(length, options.gradient_checkpointing))
    disk = (4 + _kept_models(steps, options)) * sizes.shape.weights
    held = 4 * sizes.shape.weights + size * size * documents * _SCORE_BYTES
    return Row(steps, "steps", disk, _PROCESS_BYTES, seconds + 5, held, kept)


def _kept_models(steps: int, options: TrainOptions) -> int:
    return steps // options.keep_every if options.keep_every else 0


def _train_refreshed(step: Step, sizes: Sizes) -> Row:
    """Waiting for each refresh, or for the first one alone and then slowed down by the process beside it."""
    assert isinstance(step.spec, TrainRefreshed)
    refresh, (of_trainer, of_inferencer) = step.spec.refresh, step.spec.devices.shares
    training, encoded = _train(step, sizes), encoding(step.spec.segments, sizes)
    queries = sizes.queries(step.spec.split) / refresh.query_chunks
    once = encoded.seconds + sizes.machine.searching(queries, sizes.documents, sizes.dimension)
    slower = 1.0 if sizes.machine.gpu else (of_trainer + of_inferencer) / of_trainer
    seconds = training.seconds * slower + once
    if refresh.waits:
        seconds = training.seconds + once * (-(-training.items // refresh.every) if refresh.every else 1)
    held, disk = training.held + encoded.held + _BLOCK_BYTES, training.disk + encoded.disk
    return replace(training, disk=disk, memory=2 * _PROCESS_BYTES, held=held, seconds=seconds)


def _train_queries(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, TrainQueries)
    options = step.spec.options
    queries = sizes.queries(step.spec.split)
    steps = options.last_step(queries)
    asked = steps * options.batch_size * options.accumulate
    tokens = options.batch_size * sizes.model.query_length * 0.4
    learning = 3 * asked / options.batch_size * tokens * sizes.shape.operations_a_token / sizes.machine.operations
    searching = 0.0
    if step.spec.schedule == "dynamic":
        searching = sizes.machine.searching(asked, sizes.documents, sizes.dimension, options.batch_size)
    elif step.spec.schedule == "refreshed":
        times = steps // (step.spec.refresh_every or steps)
        searching = times * sizes.machine.searching(queries, sizes.documents, sizes.dimension)
    lists = options.batch_size * step.spec.depth * sizes.dimension * 4
    held = 5 * sizes.shape.weights + _BLOCK_BYTES
    disk = (5 + _kept_models(steps, options)) * sizes.shape.weights
    return Row(steps, "steps", disk, _PROCESS_BYTES, learning + searching + 5, held, lists)


def _train_reader(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, TrainReaderSpec)
    options, shape = step.spec.options, sizes.network
    steps = options.last_step(sizes.queries(step.spec.split))
    tokens = options.batch_size * (1 + options.negatives_per_query) * step.spec.reader.length * 0.5
    passes = 3 + options.gradient_checkpointing
    seconds = passes * steps * options.accumulate * tokens * shape.operations_a_token / sizes.machine.operations
    kept = int(tokens * shape.kept_a_token(step.spec.reader.length, options.gradient_checkpointing))
    return Row(steps, "steps", 4 * shape.weights, _PROCESS_BYTES, seconds + 5, 4 * shape.weights, kept)


def _read(step: Step, sizes: Sizes) -> Row:
    assert isinstance(step.spec, ReadSpec)
    count, shape = sizes.queries(step.spec.split), sizes.network
    tokens = count * max(step.spec.passages) * _PAIR_TOKENS
    seconds = tokens * shape.operations_a_token / sizes.machine.operations
    return Row(count, "queries", count * 300, _PROCESS_BYTES, seconds + 5, 2 * shape.weights)


_RULES: Mapping[str, Callable[[Step, Sizes], Row]] = {
    "label": _mine,
    "train": _train,
    "train-queries": _train_queries,
    "train-refreshed": _train_refreshed,
    "train-reranker": _train_reranker,
    "fuse": _fuse,
    "rerank": _rerank,
    "train-reader": _train_reader,
    "read": _read,
}
