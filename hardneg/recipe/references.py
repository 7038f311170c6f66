"""References between a recipe's stages: each leads to a stage that makes, in the right form, what is asked of it."""

from collections.abc import Mapping

from hardneg.fields import START, Trait
from hardneg.registry import suggestion
from hardneg.stages.fuse import Fuse
from hardneg.stages.reading_spec import ReadSpec
from hardneg.stages.spec import RecipeView, StageSpec
from hardneg.stages.train_queries import TrainQueries


def reference_problems(view: RecipeView, written: set[str]) -> list[str]:
    """What is wrong with the stages that stages name, one line each; `written`: all names in the recipe."""
    stages, problems = view.stages, []
    for name, spec in stages.items():
        for field, target, need in spec.references():
            where = f"stages.{name}.{field}"
            made = ("model",) if target == START else tuple(stages[target].parts) if target in stages else ()
            fitting = [other for other, item in stages.items() if {*item.parts} & {*need.kinds} and other != name]
            if not made and target not in written:
                hint = suggestion(target, fitting) or suggestion(target, stages)
                problems.append(
                    f"{where}: no stage {target!r}{hint}; it needs one that makes {' or '.join(need.kinds)}"
                )
            elif made and not {*made} & {*need.kinds}:
                hint = f"; such are: {', '.join(fitting)}" if fitting else ""
                problems.append(f"{where}: {target!r} makes {made[0]}, but {' or '.join(need.kinds)} is needed{hint}")
            traits = view.at(name).traits(target)
            for trait, advice in need.refuses.items():
                if trait in traits:
                    via = "" if traits[trait] == target else f"comes from {traits[trait]!r}, which "
                    problems.append(f"{where}: {target!r} {via}{trait}; {advice}")
            if _needs_vectors(spec, field) and Trait.SEGMENTS in traits:
                problems.append(f"{where}: {target!r} holds several vectors a document; name one without `segments`")
            if field == "validation_run" and (told := _of_another_split(spec, stages.get(target))):
                problems.append(f"{where}: {target!r} {told}")
            if _measures(spec, field) and (source := _with_positives(stages, target)):
                lists = "lists" if source == target else f"comes from {source!r}, which lists"
                told = f"{target!r} {lists} positives that were not found"
                problems.append(f"{where}: {told}; name one without `positives`")
    return problems + _cycle_problems(stages)


def _needs_vectors(spec: StageSpec, field: str) -> bool:
    """Whether a field names an index that must have one vector a document."""
    return isinstance(spec, TrainQueries) and field == "index"


def _measures(spec: StageSpec, field: str) -> bool:
    """Whether a field names a run by which something is measured."""
    return isinstance(spec, Fuse | ReadSpec) or field == "validation_run"


def _of_another_split(spec: StageSpec, run: StageSpec | None) -> str | None:
    """What is wrong where a run is of other queries than those that a training is judged by."""
    wanted, found = spec.validation.split, getattr(run, "split", None)  # type: ignore[attr-defined]
    if found in (None, wanted):
        return None
    return f"is of split {found}, and validation.split is {wanted}; name a run of the same split"


def _with_positives(stages: Mapping[str, StageSpec], name: str) -> str | None:
    """The stage that put positives into a run: the run's own, or one from whose lists its documents come."""
    waiting, seen = [name], set[str]()
    while waiting:
        name = waiting.pop()
        spec = stages.get(name)
        if spec is None or spec.kind != "run" or name in seen:
            continue
        if getattr(spec, "positives", False):
            return name
        seen.add(name)
        waiting += [target for _, target, need in spec.references() if "run" in need.kinds]
    return None


def _cycle_problems(stages: Mapping[str, StageSpec]) -> list[str]:
    finished: set[str] = set()
    problems: list[str] = []

    def visit(name: str, trail: tuple[str, ...]) -> None:
        if name in trail:
            problems.append(f"stages.{name}: a circle: {' → '.join([*trail[trail.index(name) :], name])}")
        elif name in stages and name not in finished:
            for _, target, _ in stages[name].references():
                visit(target, (*trail, name))
            finished.add(name)

    for name in stages:
        visit(name, ())
    return problems[:1]
