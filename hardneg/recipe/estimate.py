"""What a plan will take, from counts and a few rates: a rough estimate; and what of it is too large for a machine."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hardneg.costs.data_sheets import MEMORY_PART
from hardneg.costs.estimated_seconds import EstimatedSeconds
from hardneg.costs.machine import Machine, this_machine
from hardneg.datasets.held_out import TRAIN
from hardneg.encoders.open.configuration import BASE, USUAL, Shape
from hardneg.encoders.open.resolved import resolve
from hardneg.encoders.open.resolved_model import ResolvedModel
from hardneg.encoders.spec import SIDES, FullSpec, ModelSpec
from hardneg.recipe.plan import Plan, Step, cached
from hardneg.records.layout import DATASET
from hardneg.records.wording import size
from hardneg.registry.plugins import plugin_errors
from hardneg.registry.protocols import HintsQueries
from hardneg.store.artifacts import Artifact, Store
from hardneg.verbs.shared.stage_spec import Row, Sizes

_LONG = 10_000  # hours of GPUs or machines together


@dataclass(frozen=True)
class Estimate:
    """One step.

    items: how many of `unit` there are to go through. disk, memory: bytes, memory of all processes together.
    gpu_memory: bytes on each GPU; 0 where there is none. seconds: 0 for what is in the store; NaN where the GPU is not
    known. sent: bytes that machines send each other. gpus: how many work on it. charge: what others ask for it.
    requests, tokens: those of servers that write.
    """

    step: Step
    cached: bool
    items: int
    unit: str
    disk: int
    memory: int
    gpu_memory: int
    seconds: EstimatedSeconds
    sent: int = 0
    gpus: int = 0
    charge: float = 0.0
    requests: int = 0
    tokens: int = 0

    @property
    def gpu_hours(self) -> float:
        """Of all GPUs that work on it, together."""
        return self.gpus * self.seconds / 3600

    def cost(self, price: float) -> float:
        """Of its GPU hours, at so much each, and what others ask for it."""
        return (self.gpu_hours * price if price else 0.0) + self.charge


def estimate(
    plan: Plan, store: Store, until: str | None = None, machine: Machine | None = None, documents: int | None = None
) -> list[Estimate]:
    """One estimate a step, in the order in which they run; `machine` is by default this one, with one process.

    documents: as if the dataset had so many; then nothing that the store holds is of it.
    """
    where, known_store = machine or this_machine(), store if documents is None else None
    shapes = {name: resolve(spec).shape for name, spec in networks(plan)}
    sizes = {name: plan_sizes(plan, known_store, where, name) for name in plan.recipe.collections}
    sizes[DATASET] = replace(sizes[DATASET], documents=documents or sizes[DATASET].documents)
    steps = list(plan.until(until))
    reads = {step.name: step.name if step.name in sizes else step.inputs.get(DATASET, DATASET) for step in steps}
    for step in steps:
        if step.spec.artifact_type == "collection" and step.name not in sizes:
            sizes[step.name] = _of_collection(step, sizes.get(reads[step.name], sizes[DATASET]), known_store)
    rows = []
    with plugin_errors(step.spec for step in steps):
        for step in steps:
            own = step_sizes(sizes.get(reads[step.name], sizes[DATASET]), plan, step, shapes)
            collections = {path: sizes[name] for path, name in step.inputs.items() if name in sizes}
            rows.append(step.spec.estimate(replace(own, collections=collections)))
    return [_estimate(step, row, where, known_store) for step, row in zip(steps, rows, strict=True)]


def _estimate(step: Step, row: Row, machine: Machine, store: Store | None) -> Estimate:
    done = store is not None and cached(step, store) is not None
    processes = machine.processes if row.held else 1
    own, networks = processes * row.memory, processes * row.held + row.shared
    memory, gpu = (own, -(-networks // processes)) if machine.gpu else (own + networks, 0)
    seconds, sent = (EstimatedSeconds.of(0), 0) if done else (EstimatedSeconds.of(row.seconds), row.sent)
    gpus = processes if machine.gpu and networks else 0
    of_servers = (0.0, 0, 0) if done else (row.charge, row.requests, row.tokens)
    return Estimate(step, done, row.items, row.unit, row.disk, memory, gpu, seconds, sent, gpus, *of_servers)


def plan_sizes(plan: Plan, store: Store | None, machine: Machine, collection: str = DATASET) -> Sizes:
    """Counts from the store, or else from the recipe or the loader; shapes from the models' configurations.

    collection: the stage that reads it; what the recipe says of sizes is of its own dataset.
    """
    step, resolved = plan.steps[collection], resolve(plan.recipe.model)
    model, shape, form = _usual(resolved), resolved.shape, resolved.family.form
    if store is not None and (artifact := cached(step, store)):
        from hardneg.formats.corpus_writer import TEXTS

        corpus = (artifact.path / TEXTS).stat().st_size
        return Sizes(*_counts(artifact), model, shape, machine, form=form, corpus=corpus)
    stated, loader = plan.recipe.sizes if collection == DATASET else None, step.plugins["loader"]
    documents = (stated.documents if stated else 0) or loader.size_hint()
    hinted = loader.query_hint() if isinstance(loader, HintsQueries) and not (stated and stated.documents) else {}
    said = Sizes(documents, {**hinted, **(stated.queries if stated else {})}, model, shape, machine, form=form)
    withheld = plan.recipe.collections[collection].withheld
    if withheld is None:
        return said
    left, splits = withheld.left_of(documents, {**said.splits, TRAIN: said.queries(TRAIN)})
    return replace(said, documents=left, splits=splits)


def _counts(collection: Artifact) -> tuple[int, dict[str, int]]:
    splits = {name: int(counts["queries"]) for name, counts in collection.facts["splits"].items()}
    return int(collection.facts["documents"]), splits


def _of_collection(step: Step, source: Sizes, store: Store | None) -> Sizes:
    """Counts of the collection that a step makes: from the store, or else by its options; source: of what it reads."""
    if store is not None and (artifact := cached(step, store)):
        documents, splits = _counts(artifact)
        return replace(source, documents=documents, splits=splits)
    with plugin_errors([step.spec]):
        return step.spec.collection_sizes(source)


def step_sizes(sizes: Sizes, plan: Plan, step: Step, shapes: Mapping[str, Shape]) -> Sizes:
    """The same for one step: with its inputs, its model, and the network that it has or else its first input has."""
    began = step.spec.began_with(plan.recipe.view(step.name))
    if began is not plan.recipe.model:
        model = resolve(began)
        sizes = replace(sizes, model=_usual(model), shape=model.shape, form=model.family.form)
    brings = next((name for name in (step.name, *step.inputs.values()) if name in shapes), None)
    index = plan.steps.get(step.inputs.get("index", ""))
    backend = index.plugins.get("backend") if index is not None else None
    return replace(sizes, inputs=step.inputs, network=shapes[brings] if brings else BASE, index=backend)


def networks(plan: Plan) -> Iterator[tuple[str, ModelSpec]]:
    """The networks beside the recipe's model, readers and rerankers, by the step that has one."""
    for name, step in plan.steps.items():
        if (network := step.spec.network(plan.recipe.view(name))) is not None:
            yield name, network


def _usual(model: ResolvedModel) -> FullSpec:
    """The spec in full for estimates: texts are seldom longer than what models usually read, whatever they could."""
    full = model.known
    stated = {name: value for name, value in vars(model.spec).items() if value is not None}
    if full is None:
        return FullSpec(**stated)
    own = {f"{side}_length": min(full.length(side), USUAL) for side in SIDES}
    return replace(full, **own | {name: value for name, value in stated.items() if name in own})


@dataclass(frozen=True)
class Room:
    """Bytes that are free on each machine; None where that is not known, as of other machines than this one."""

    disk: float | None = None
    memory: float | None = None


def too_large(rows: Sequence[Estimate], machine: Machine, room: Room) -> Iterator[str]:
    """One line for each thing that does not fit, with what to do: `what: how much, how much there is; what to do`."""
    ahead = [row for row in rows if not row.cached]
    limit = MEMORY_PART * machine.rates.capacity
    for each in ahead:
        if limit and each.gpu_memory > limit:
            reason = f"{size(each.gpu_memory)} on each GPU, of which {size(limit)} can be counted on"
            yield f"{each.step.name}: {reason}; take smaller batches or chunks, gradient_checkpointing, or a larger GPU"
    yield from _on_machines(ahead, machine, room)
    for row in ahead:
        hours = (row.gpu_hours if row.gpus else machine.machines * row.seconds / 3600) if row.seconds else 0.0
        if hours > _LONG:
            what = "hours of GPUs" if row.gpus else "hours of machines"
            yield f"{row.step.name}: {hours:,.0f} {what}; {_less(row)}"


def _on_machines(ahead: Sequence[Estimate], machine: Machine, room: Room) -> Iterator[str]:
    disk = sum(row.disk for row in ahead)
    if room.disk is not None and disk > room.disk:
        reason = f"{size(disk)}, {size(room.disk)} are free in the store"
        yield f"disk: {reason}; name a store with more room, shards on several machines, or pq, opq-pq or ivfpq indexes"
    for row in ahead:
        each = row.memory / machine.machines
        if room.memory is not None and each > room.memory:
            reason = f"{size(each)} of memory, of which this machine has {size(room.memory)}"
            yield f"{row.step.name}: {reason}; take fewer processes, more machines, or an index of smaller codes"


def _less(row: Estimate) -> str:
    """What makes a step shorter."""
    if row.step.verb == "search":
        return "take more GPUs or machines, an ivfpq or hnsw index, or fewer queries"
    if row.step.verb.startswith("train"):
        return "take fewer steps or smaller batches, or a smaller model"
    return "take more GPUs or machines, or a smaller model"
