"""The size of each step of a plan in items and bytes, what the store has no room for, and seconds of like steps."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hardneg.datasets.held_out import TRAIN
from hardneg.encoders.open.contract import BASE, USUAL, Shape
from hardneg.encoders.open.resolved import ResolvedModel
from hardneg.encoders.spec import SIDES, FullSpec, ModelSpec
from hardneg.protocols import HintsQueries
from hardneg.recipes.plan import Plan, Step, cached, flat
from hardneg.records.layout import DATASET
from hardneg.records.wording import size
from hardneg.registry import plugin_errors
from hardneg.stages.base import Sizes
from hardneg.store.artifacts import Artifact, Store
from hardneg.store.digest import canonical, digest


@dataclass(frozen=True)
class Estimate:
    """One step.

    items: how many of `unit` there are to go through. disk: bytes. like: the artifact of the store that a step like it
    made, None where there is none.
    """

    step: Step
    cached: bool
    items: int
    unit: str
    disk: int
    like: Artifact | None = None

    @property
    def seconds(self) -> float | None:
        """Seconds that the step like it took, as its manifest says; None where there is none."""
        seconds = self.like.facts.get("seconds") if self.like is not None else None
        return float(seconds) if isinstance(seconds, int | float) else None


def estimate(plan: Plan, store: Store, until: str | None = None, documents: int | None = None) -> list[Estimate]:
    """One estimate a step, in the order in which they run.

    documents: as if the dataset had so many; then nothing that the store holds is of it.
    """
    known_store = store if documents is None else None
    shapes = {name: plan.recipe.models.of(spec).shape for name, spec in networks(plan)}
    sizes = {name: plan_sizes(plan, known_store, name) for name in plan.recipe.collections}
    sizes[DATASET] = replace(sizes[DATASET], documents=documents or sizes[DATASET].documents)
    steps = list(plan.until(until))
    reads = {step.name: step.name if step.name in sizes else step.inputs.get(DATASET, DATASET) for step in steps}
    for step in steps:
        if step.spec.artifact_type == "collection" and step.name not in sizes:
            source = sizes.get(reads[step.name], sizes[DATASET])
            if known_store is not None and (artifact := cached(step, known_store)):
                of_documents, splits = _counts(artifact)
                sizes[step.name] = replace(source, documents=of_documents, splits=splits)
                continue
            with plugin_errors([step.spec]):
                sizes[step.name] = step.spec.collection_sizes(source)
    rows = []
    with plugin_errors(step.spec for step in steps):
        for step in steps:
            of_step = step_sizes(sizes.get(reads[step.name], sizes[DATASET]), plan, step, shapes)
            collections = {path: sizes[name] for path, name in step.inputs.items() if name in sizes}
            rows.append(step.spec.estimate(replace(of_step, collections=collections)))
    likes, estimates = _Likes(plan, known_store), []
    for step, row in zip(steps, rows, strict=True):
        done = known_store is not None and cached(step, known_store) is not None
        estimates.append(Estimate(step, done, row.items, row.unit, row.disk, None if done else likes.of(step)))
    return estimates


class _Likes:
    """The artifacts of a store, by the steps that are like those that made them.

    Two steps are alike that have the same stage, options and plugins, the seed apart, and come from the same dataset
    and start model; what else they read, such as a model that was trained in between, may differ.
    """

    def __init__(self, plan: Plan, store: Store | None) -> None:
        artifacts = [] if store is None else [each for each in store.artifacts() if isinstance(each, Artifact)]
        self._origins = {each.key: each.origin for each in artifacts}
        self._origins |= {step.key: step.origin for step in plan.steps.values()}
        self._known = {
            self._digest(each.key): each for each in artifacts if isinstance(each.origin.get("inputs"), dict)
        }

    def of(self, step: Step) -> Artifact | None:
        """The artifact of a step like this one."""
        return self._known.get(self._digest(step.key)) if self._known else None

    def _digest(self, key: str) -> str:
        origin = self._origins[key]
        choices = flat({name: value for name, value in origin.items() if name not in ("name", "inputs")})
        same = sorted((path, canonical(value)) for path, value in choices if path.rpartition(".")[2] != "seed")
        return digest([same, sorted(origin["inputs"]), sorted(set(self._roots(key)))])

    def _roots(self, key: str) -> Iterator[str]:
        inputs = self._origins.get(key, {}).get("inputs")
        if not isinstance(inputs, dict) or not inputs:
            yield key
            return
        for each in inputs.values():
            yield from self._roots(each)


def plan_sizes(plan: Plan, store: Store | None, collection: str = DATASET) -> Sizes:
    """Counts from the store, or else from the recipe or the loader; shapes from the models' configurations.

    collection: the stage that reads it; what the recipe says of sizes is of its own dataset.
    """
    step, resolved = plan.steps[collection], plan.recipe.models.of(plan.recipe.model)
    model, shape, form = _usual(resolved), resolved.shape, resolved.family.form
    if store is not None and (artifact := cached(step, store)):
        return Sizes(*_counts(artifact), model, shape, form=form)
    stated, loader = plan.recipe.sizes if collection == DATASET else None, step.plugins["loader"]
    documents = (stated.documents if stated else 0) or loader.size_hint()
    hinted = loader.query_hint() if isinstance(loader, HintsQueries) and not (stated and stated.documents) else {}
    said = Sizes(documents, {**hinted, **(stated.queries if stated else {})}, model, shape, form=form)
    withheld = plan.recipe.collections[collection].withheld
    if withheld is None:
        return said
    left, splits = withheld.left_of(documents, {**said.splits, TRAIN: said.queries(TRAIN)})
    return replace(said, documents=left, splits=splits)


def _counts(collection: Artifact) -> tuple[int, dict[str, int]]:
    splits = {name: int(counts["queries"]) for name, counts in collection.facts["splits"].items()}
    return int(collection.facts["documents"]), splits


def step_sizes(sizes: Sizes, plan: Plan, step: Step, shapes: Mapping[str, Shape]) -> Sizes:
    """The same for one step: with its model, and the network that it has or else its first input has."""
    began = step.spec.began_with(plan.recipe.view(step.name))
    if began is not plan.recipe.model:
        model = plan.recipe.models.of(began)
        sizes = replace(sizes, model=_usual(model), shape=model.shape, form=model.family.form)
    brings = next((name for name in (step.name, *step.inputs.values()) if name in shapes), None)
    return replace(sizes, network=shapes[brings] if brings else BASE)


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


def no_room(rows: Sequence[Estimate], free: float | None) -> Iterator[str]:
    """A line where the steps to run need more bytes than are free in the store's file system."""
    disk = sum(row.disk for row in rows if not row.cached)
    if free is not None and disk > free:
        reason = f"{size(disk)}, {size(free)} are free in the store"
        yield f"disk: {reason}; name a store with more room, or take pq, opq-pq or ivfpq indexes"
