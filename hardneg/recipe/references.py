"""References between a recipe's stages: each leads to a stage that makes, in the right form, what is asked of it."""

from collections.abc import Mapping

from hardneg.fields import START
from hardneg.registry import suggestion
from hardneg.stages.analysis_spec import AnalyzeSpec
from hardneg.stages.fuse import Fuse
from hardneg.stages.reading_spec import ReadSpec
from hardneg.stages.spec import RecipeView, StageSpec
from hardneg.stages.specs import EncodeSpec, EvaluateSpec, IndexSpec, SearchSpec
from hardneg.stages.train_queries import TrainQueries

_MEASURED = ("holes", "wins", "depths", "candidates", "dimensions")
"""Analyses with metrics of runs."""


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
            if isinstance(spec, SearchSpec) and field == "model" and _of_texts(stages.get(spec.index)):
                problems.append(f"{where}: {spec.index!r} is searched with texts, not vectors; leave the model out")
            if isinstance(spec, AnalyzeSpec) and field.startswith("indexes.") and _of_texts(stages.get(target)):
                problems.append(f"{where}: {target!r} holds texts, not vectors; search it and name the run in `runs`")
            if _needs_vectors(spec, field) and _of_segments(stages, target):
                problems.append(f"{where}: {target!r} holds several vectors a document; name one without `segments`")
            if isinstance(spec, IndexSpec) and field == "vectors" and made == ("model", "index"):
                problems.append(f"{where}: {target!r} makes a compressed index; name an encode stage or a flat index")
            if field == "validation_run" and (told := _of_another_split(spec, stages.get(target))):
                problems.append(f"{where}: {target!r} {told}")
            if _measures(spec, field) and (source := _with_positives(stages, target)):
                lists = "lists" if source == target else f"comes from {source!r}, which lists"
                told = f"{target!r} {lists} positives that were not found"
                problems.append(f"{where}: {told}; name one without `positives`")
        if isinstance(spec, SearchSpec) and spec.positives and _of_texts(stages.get(spec.index)):
            problems.append(f"stages.{name}.positives: {spec.index!r} holds texts, which have no scores of their own")
    return problems + _cycle_problems(stages)


def _of_texts(spec: StageSpec | None) -> bool:
    return isinstance(spec, IndexSpec) and spec.vectors is None


def _needs_vectors(spec: StageSpec, field: str) -> bool:
    """Whether a field names an index that must have one vector a document."""
    learns = isinstance(spec, TrainQueries) and field == "index"
    return learns or (isinstance(spec, AnalyzeSpec) and field.startswith("indexes."))


def _measures(spec: StageSpec, field: str) -> bool:
    """Whether a field names a run by which something is measured."""
    if isinstance(spec, AnalyzeSpec):
        return field.partition(".")[0] in _MEASURED
    return isinstance(spec, EvaluateSpec | Fuse | ReadSpec) or field == "validation_run"


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


def _of_segments(stages: Mapping[str, StageSpec], name: str | None) -> bool:
    seen: set[str | None] = set()
    while isinstance(spec := stages.get(name or ""), IndexSpec) and name not in seen:
        seen.add(name)
        name = spec.vectors
    return isinstance(spec, EncodeSpec) and spec.segments is not None


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
