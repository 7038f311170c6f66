"""The optional parts of hardneg that steps need, and whether they are installed; none of them is imported."""

from collections.abc import Iterable
from importlib.util import find_spec

from hardneg.recipe.plan import Plan, Step
from hardneg.records.errors import MissingDependency

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
        from hardneg.indexes.kernels.lucene.java import find_java

        try:
            find_java()
        except MissingDependency as error:
            return str(error)
    return ""


def check_packages(steps: Iterable[Step], plan: Plan) -> None:
    """Raises MissingDependency, with all that is missing for some steps, before the first of them runs."""
    if lines := [f"before it can run: {why}" for extra in extras(steps, plan) if (why := absent(extra))]:
        raise MissingDependency("\n".join(lines))
