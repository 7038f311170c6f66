"""What a plan needs, determined without downloads: the size of each step, and the packages, data and models."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hardneg.datasets.held_out import TRAIN
from hardneg.encoders.open import contract, resolved
from hardneg.encoders.spec import SIDES, FullSpec, ModelSpec
from hardneg.fields import InputFile, marked
from hardneg.indexes import lucene
from hardneg.protocols import HintsQueries, LooksUp
from hardneg.recipes import Plan, Step, cached, flat, maker
from hardneg.records import DATASET, START, DataError, HardnegError, Lookup, MissingDependency, ModelError, size
from hardneg.registry import plugin_errors
from hardneg.stages import Sizes
from hardneg.store import Artifact, Store, digest


@dataclass(frozen=True)
class Estimate:
    """The estimated size of a step.

    cached: whether its artifact is in the store. items: number of `unit`. disk: bytes. like: a similar step's artifact.
    """

    step: Step
    cached: bool
    items: int
    unit: str
    disk: int
    like: Artifact | None = None

    @property
    def seconds(self) -> float | None:
        """The seconds that a similar step took, according to its manifest; None if unknown."""
        seconds = self.like.facts.get("seconds") if self.like is not None else None
        return float(seconds) if isinstance(seconds, int | float) else None


def estimate(plan: Plan, store: Store, until: str | None = None, documents: int | None = None) -> list[Estimate]:
    """Estimate the size of each step, in the order in which the steps run.

    until: the last step; None for all. documents: the number of documents to assume; the store is then ignored.
    """
    known = store if documents is None else None
    shapes = {name: plan.recipe.models.of(spec).shape for name, spec in networks(plan)}
    sizes = {name: plan_sizes(plan, known, name) for name in plan.recipe.collections}
    sizes[DATASET] = replace(sizes[DATASET], documents=documents or sizes[DATASET].documents)
    steps, like, estimates = plan.until(until), _likes(plan, known), []
    with plugin_errors(step.spec for step in steps):
        for step in steps:
            done = cached(step, known) if known is not None else None
            read = sizes.get(step.name) or sizes.get(step.inputs.get(DATASET, DATASET), sizes[DATASET])
            collections = {path: sizes[name] for path, name in step.inputs.items() if name in sizes}
            row = step.spec.estimate(replace(step_sizes(read, plan, step, shapes), collections=collections))
            if step.spec.artifact_type == "collection" and step.name not in sizes:
                estimated = read.documents, read.splits if row.splits is None else row.splits
                stored, splits = _counts(done) if done else estimated
                sizes[step.name] = replace(read, documents=stored, splits=splits)
            estimates.append(Estimate(step, bool(done), row.items, row.unit, row.disk, None if done else like(step)))
    return estimates


def _likes(plan: Plan, store: Store | None) -> Callable[[Step], Artifact | None]:
    """Return a function that finds the artifact of a similar step in the store.

    Similar steps have the same stage, plugins and options except for seeds, and the same dataset and start model.
    Their other inputs, such as a trained model, may differ.
    """
    artifacts = [] if store is None else [each for each in store.artifacts() if isinstance(each, Artifact)]
    origins = {each.key: each.origin for each in artifacts} | {step.key: step.origin for step in plan.steps.values()}

    def roots(key: str) -> set[str]:
        inputs = origins.get(key, {}).get("inputs")
        return set().union(*map(roots, inputs.values())) if isinstance(inputs, dict) and inputs else {key}

    def likeness(key: str) -> str:
        choices = flat({name: value for name, value in origins[key].items() if name not in ("name", "inputs")})
        same = sorted((path, digest(value)) for path, value in choices if path.rpartition(".")[2] != "seed")
        return digest([same, sorted(origins[key]["inputs"]), sorted(roots(key))])

    known = {likeness(each.key): each for each in artifacts if isinstance(each.origin.get("inputs"), dict)}
    return lambda step: known.get(likeness(step.key)) if known else None


def plan_sizes(plan: Plan, store: Store | None, collection: str = DATASET) -> Sizes:
    """Return the size of a dataset, from the store or else from the recipe or loader, with the recipe's model.

    collection: the stage that reads the dataset. The recipe's `sizes` are used only for the stage `dataset`.
    """
    step, resolved = plan.steps[collection], plan.recipe.models.of(plan.recipe.model)
    model, shape, form = _usual(resolved), resolved.shape, resolved.family.form
    if store is not None and (artifact := cached(step, store)):
        return Sizes(*_counts(artifact), model, shape, form=form)
    stated, loader = plan.recipe.sizes if collection == DATASET else None, step.plugins["loader"]
    documents = (stated.documents if stated else 0) or loader.size_hint()
    hinted = loader.query_hint() if isinstance(loader, HintsQueries) and not (stated and stated.documents) else {}
    said = Sizes(documents, {**hinted, **(stated.queries if stated else {})}, model, shape, form=form)
    if (withheld := plan.recipe.collections[collection].withheld) is None:
        return said
    left, splits = withheld.left_of(documents, {**said.splits, TRAIN: said.queries(TRAIN)})
    return replace(said, documents=left, splits=splits)


def _counts(collection: Artifact) -> tuple[int, dict[str, int]]:
    splits = {name: int(counts["queries"]) for name, counts in collection.facts["splits"].items()}
    return int(collection.facts["documents"]), splits


def step_sizes(sizes: Sizes, plan: Plan, step: Step, shapes: Mapping[str, contract.Shape]) -> Sizes:
    """Return `sizes` completed with a step's model and, from `shapes`, the network of the step or of an input."""
    began = step.spec.began_with(plan.recipe.view(step.name))
    if began is not plan.recipe.model:
        model = plan.recipe.models.of(began)
        sizes = replace(sizes, model=_usual(model), shape=model.shape, form=model.family.form)
    brings = next((name for name in (step.name, *step.inputs.values()) if name in shapes), None)
    return replace(sizes, network=shapes[brings] if brings else contract.BASE)


def networks(plan: Plan) -> Iterator[tuple[str, ModelSpec]]:
    """Yield the name and the network of each step that has its own network, such as a reader or reranker."""
    for name, step in plan.steps.items():
        if (network := step.spec.network(plan.recipe.view(name))) is not None:
            yield name, network


def _usual(model: resolved.ResolvedModel) -> FullSpec:
    """Return the full spec for estimates, with the usual text lengths if the model can read longer texts."""
    full = model.known
    stated = {name: value for name, value in vars(model.spec).items() if value is not None}
    if full is None:
        return FullSpec(**stated)
    own = {f"{side}_length": min(full.length(side), contract.USUAL) for side in SIDES}
    return replace(full, **own | {name: value for name, value in stated.items() if name in own})


def no_room(rows: Sequence[Estimate], free: float | None) -> Iterator[str]:
    """Yield a warning if the steps to run need more than `free` bytes of disk; yield nothing if `free` is None."""
    disk = sum(row.disk for row in rows if not row.cached)
    if free is not None and disk > free:
        more = "choose a store with more space, or use pq, opq-pq or ivfpq indexes"
        yield f"disk: the steps need {size(disk)}, but the store has only {size(free)} free; {more}"


@dataclass(frozen=True)
class Need:
    """A package, data set or model that a run needs.

    category: package, data or model. subject: the name. there, ahead: bytes on this machine and bytes to download.
    note: more information. missing: why it is unavailable and what to do. exit_code: the exit code in that case.
    """

    category: str
    subject: str
    there: int = 0
    ahead: int = 0
    note: str = ""
    missing: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, object]:
        """Return the fields as JSON, with the category as `kind`."""
        fields = asdict(self)
        return {"kind": fields.pop("category"), **fields}


def needs(plan: Plan) -> Iterator[Need]:
    """Yield the packages, data and models that the steps need; from the hub, only listings and headers are read."""
    yield from packages(plan)
    if "lucene" in extras(plan.steps.values(), plan) and not absent("lucene"):
        yield _looked_up(
            "package", "Java", lambda: Lookup(note="Java {0.version} in {0.home}".format(lucene.find_java()))
        )
    for stage, reading in plan.recipe.collections.items():
        loader, name = plan.recipe.plugins[stage, "loader"], reading.loader.name
        source = getattr(loader, "source", "")
        yield _looked_up("data", f"{name}:{source}" if source else name, partial(_data, loader))
    for stage, spec in plan.recipe.stages.items():
        for path, _, file in marked(spec, InputFile):
            yield _looked_up("data", file, partial(_file, f"stages.{stage}.{path}", file))
    used = any(target == START for spec in plan.recipe.stages.values() for _, target, _ in spec.references())
    specs = [*([plan.recipe.model] if used else []), *(spec for _, spec in networks(plan))]
    for model in {(spec.name, spec.revision): spec for spec in specs}.values():
        at = f" at {model.revision}" if model.revision else ""
        yield _looked_up("model", f"{model.name}{at}", partial(_model, plan.recipe.models, model))


def packages(plan: Plan) -> Iterator[Need]:
    """Yield the optional dependencies of the steps; nothing is imported or looked up online."""
    for extra in extras(plan.steps.values(), plan):
        reason = absent(extra)
        yield Need(
            "package", f"hardneg[{extra}]", missing=reason, exit_code=MissingDependency.exit_code if reason else 0
        )


def _looked_up(category: str, subject: str, find: Callable[[], Lookup]) -> Need:
    try:
        return Need(category, subject, *find())
    except HardnegError as error:
        return Need(category, subject, missing=str(error), exit_code=error.exit_code)
    except OSError as error:
        reason = f"{error.filename}: cannot be read ({error.strerror})"
        return Need(category, subject, missing=reason, exit_code=DataError.exit_code)


def _data(loader: Any) -> Lookup:
    if isinstance(loader, LooksUp):
        return loader.look_up()
    documents = loader.size_hint()
    return Lookup(note=f"about {documents:,} documents" if documents else "")


def _file(field_path: str, file: str) -> Lookup:
    path = Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"{field_path}: file {file} does not exist; create it, or set {field_path}=FILE")
    return Lookup(there=path.stat().st_size)


def _model(models: resolved.ResolvedModels, spec: ModelSpec) -> Lookup:
    try:
        return models.of(spec).look_up()
    except ModelError as error:
        if (command := maker(spec.name)) is None:
            raise
        raise ModelError(f"model {spec.name}: does not exist; create it with `{command}`") from error


_MODULES = {"analysis": ("sklearn",), "cpu": ("faiss",), "hub": ("datasets",), "lucene": ("pyserini", "jnius")}


def extras(steps: Iterable[Step], plan: Plan) -> list[str]:
    """Return the sorted hardneg extras that the given steps need for their own plugins and their inputs' plugins."""
    named: set[str] = set()
    for step in steps:
        read = [plan.steps[name] for name in step.inputs.values() if name in plan.steps]
        plugins = [plugin for each in (step, *read) for plugin in each.plugins.values()]
        analyses = getattr(step.spec, "analysis", ())
        named |= {str(getattr(type(plugin), "extra", "")) for plugin in (*plugins, *analyses)}
    return sorted(named & _MODULES.keys())


def absent(extra: str) -> str:
    """Return why an extra cannot be used, and what to do; an empty string if it can be used."""
    if modules := [module for module in _MODULES[extra] if find_spec(module) is None]:
        return f'{", ".join(modules)} not installed: pip install "hardneg[{extra}]"'
    if extra == "lucene":
        try:
            lucene.find_java()
        except MissingDependency as error:
            return str(error)
    return ""


def check_packages(steps: Iterable[Step], plan: Plan) -> None:
    """Raise MissingDependency if the given steps need anything that is not installed; the message lists all of it."""
    if lines := [f"before it can run: {why}" for extra in extras(steps, plan) if (why := absent(extra))]:
        raise MissingDependency("\n".join(lines))
