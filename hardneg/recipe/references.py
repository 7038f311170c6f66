"""References from stage to stage: their problems, and the same stage with other references."""

from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel

from hardneg.fields import Reference, marked_fields
from hardneg.records.layout import START
from hardneg.records.wording import suggestion
from hardneg.verbs.shared.stage_spec import RecipeView, StageSpec

_Model = TypeVar("_Model", bound=BaseModel)


def reference_problems(view: RecipeView, written: set[str]) -> list[str]:
    """The problems of references between stages, one line each; `written`: all names in the recipe."""
    stages, problems = view.stages, []
    for name, spec in stages.items():
        for field, target, need in spec.references():
            where = f"stages.{name}.{field}"
            makes = ("model",) if target == START else stages[target].makes if target in stages else ()
            needed = {*need.artifact_types}
            fitting = [other for other, item in stages.items() if {*item.makes} & needed and other != name]
            wanted = " or ".join(need.artifact_types)
            if not makes and target not in written:
                hint = suggestion(target, fitting) or suggestion(target, stages)
                problems.append(f"{where}: no stage {target!r}{hint}; it needs one that makes {wanted}")
            elif makes and not {*makes} & needed:
                hint = f"; such are: {', '.join(fitting)}" if fitting else ""
                problems.append(f"{where}: {target!r} makes {makes[0]}, but {wanted} is needed{hint}")
            traits = view.at(name).traits(target)
            for trait, advice in need.refuses.items():
                if trait in traits:
                    via = "" if traits[trait] == target else f"comes from {traits[trait]!r}, which "
                    problems.append(f"{where}: {target!r} {via}{trait}; {advice}")
    return problems + _cycle_problems(stages)


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


def with_references(model: _Model, names: Mapping[str, str]) -> _Model:
    """The same with other stages in its references, also in those of its parts; `names`: the new names by the old."""
    marked = {field for field, _, _ in marked_fields(model, Reference)}
    held = {field: getattr(model, field) for field in type(model).model_fields}
    named = {field: _named(value, names, field in marked) for field, value in held.items()}
    return model.model_copy(update={field: value for field, value in named.items() if value is not held[field]})


def _named(value: Any, names: Mapping[str, str], marked: bool) -> Any:
    """A field's value with other names where it is marked; the value itself where nothing in it is named otherwise."""
    if isinstance(value, BaseModel):
        return with_references(value, names)
    if isinstance(value, str) and marked:
        return names.get(value, value)
    if type(value) is dict:
        inner = {key: _named(item, names, marked) for key, item in value.items()}
        return inner if inner != value else value
    if type(value) in (tuple, list):
        return type(value)(_named(item, names, marked) for item in value)
    return value
