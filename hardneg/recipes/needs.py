"""What a recipe needs that it does not make: packages, Java, data and models; looked up, never fetched."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from hardneg.encoders.open.resolved import ResolvedModels
from hardneg.encoders.spec import ModelSpec
from hardneg.fields import input_files
from hardneg.protocols import LooksUp
from hardneg.recipes.estimate import networks
from hardneg.recipes.plan import Plan, Step
from hardneg.recipes.run_folder import maker
from hardneg.records.errors import DataError, HardnegError, MissingDependency, ModelError
from hardneg.records.layout import START
from hardneg.records.types import Lookup


@dataclass(frozen=True)
class Need:
    """One thing that a run needs.

    Attributes:
        category: package, data or model. subject: its name.
        there: bytes on this machine. ahead: bytes that would come.
        note: what else is known. missing: why it cannot be had and what to do; empty where it can.
        exit_code: that of the error in `missing`, 0 where there is none.
    """

    category: str
    subject: str
    there: int = 0
    ahead: int = 0
    note: str = ""
    missing: str = ""
    exit_code: int = 0

    def to_json(self) -> dict[str, object]:
        """All of it; the category is `kind` there."""
        fields = asdict(self)
        return {"kind": fields.pop("category"), **fields}


def needs(plan: Plan) -> Iterator[Need]:
    """All that the steps need, each once; of the hub only listings and heads of files are read."""
    yield from packages(plan)
    if "lucene" in extras(plan.steps.values(), plan) and not absent("lucene"):
        from hardneg.indexes.kernels.lucene import find_java

        yield _looked_up("package", "Java", lambda: Lookup(note="Java {0.version} in {0.home}".format(find_java())))
    for stage, reading in plan.recipe.collections.items():
        loader, name = plan.recipe.plugins[stage, "loader"], reading.loader.name
        source = getattr(loader, "source", "")
        yield _looked_up("data", f"{name}:{source}" if source else name, partial(_data, loader))
    for stage, spec in plan.recipe.stages.items():
        for path, _, file in input_files(spec):
            yield _looked_up("data", file, partial(_file, f"stages.{stage}.{path}", file))
    used = any(target == START for spec in plan.recipe.stages.values() for _, target, _ in spec.references())
    specs = [*([plan.recipe.model] if used else []), *(spec for _, spec in networks(plan))]
    for model in {(spec.name, spec.revision): spec for spec in specs}.values():
        at = f" at {model.revision}" if model.revision else ""
        yield _looked_up("model", f"{model.name}{at}", partial(_model, plan.recipe.models, model))


def packages(plan: Plan) -> Iterator[Need]:
    """The optional parts of hardneg that the steps need; looked up without the network and without importing any."""
    for extra in extras(plan.steps.values(), plan):
        reason = absent(extra)
        code = MissingDependency.exit_code if reason else 0
        yield Need("package", f"hardneg[{extra}]", missing=reason, exit_code=code)


def _looked_up(category: str, subject: str, find: Callable[[], Lookup]) -> Need:
    try:
        there, ahead, note = find()
    except HardnegError as error:
        return Need(category, subject, missing=str(error), exit_code=error.exit_code)
    except OSError as error:
        reason = f"{error.filename}: cannot be read: {error.strerror}"
        return Need(category, subject, missing=reason, exit_code=DataError.exit_code)
    return Need(category, subject, there, ahead, note)


def _data(loader: object) -> Lookup:
    """The loader's own look-up, or else its size hint."""
    if isinstance(loader, LooksUp):
        return loader.look_up()
    documents = loader.size_hint()  # type: ignore[attr-defined]
    return Lookup(note=f"about {documents:,} documents" if documents else "")


def _file(field_path: str, file: str) -> Lookup:
    path = Path(file).expanduser()
    if not path.is_file():
        raise DataError(f"{field_path}: no file {file}: put it there, or set {field_path}=FILE")
    return Lookup(there=path.stat().st_size)


def _model(models: ResolvedModels, spec: ModelSpec) -> Lookup:
    try:
        return models.of(spec).look_up()
    except ModelError as error:
        if (command := maker(spec.name)) is None:
            raise
        raise ModelError(f"model {spec.name}: not there yet: make it with `{command}`") from error


_LUCENE = "lucene"
_MODULES = {
    "analysis": ("sklearn",),
    "cpu": ("faiss",),
    "hub": ("datasets",),
    "ir-datasets": ("ir_datasets",),
    _LUCENE: ("pyserini", "jnius"),
}


def lacking(extra: str) -> list[str]:
    """The modules of an optional part that are not installed."""
    return [module for module in _MODULES[extra] if find_spec(module) is None]


def extras(steps: Iterable[Step], plan: Plan) -> list[str]:
    """The names of the optional parts that steps need: for their plugins, and for those of what they read."""
    named: set[str] = set()
    for step in steps:
        read = [plan.steps[name] for name in step.inputs.values() if name in plan.steps]
        plugins = [plugin for each in (step, *read) for plugin in each.plugins.values()]
        analyses = getattr(step.spec, "analysis", ())
        named |= {str(getattr(type(plugin), "extra", "")) for plugin in (*plugins, *analyses)}
    return sorted(named & _MODULES.keys())


def absent(extra: str) -> str:
    """Why an optional part cannot be used and what to do; empty where it can."""
    if modules := lacking(extra):
        return f'{", ".join(modules)} not installed: pip install "hardneg[{extra}]"'
    if extra == _LUCENE:
        from hardneg.indexes.kernels.lucene import find_java

        try:
            find_java()
        except MissingDependency as error:
            return str(error)
    return ""


def check_packages(steps: Iterable[Step], plan: Plan) -> None:
    """Raises MissingDependency, with all that is missing for some steps, before the first of them runs."""
    if lines := [f"before it can run: {why}" for extra in extras(steps, plan) if (why := absent(extra))]:
        raise MissingDependency("\n".join(lines))
